import {
  Badge,
  type CSSVariablesResolver,
  createTheme,
  type MantineColorsTuple,
  Modal,
  Paper,
  Table,
  TableScrollContainer,
  Tooltip,
} from "@mantine/core";

// Slate, as the backend's figures have it in the dark.
const SLATE: MantineColorsTuple = [
  "#e7ecf2",
  "#b8c3cf",
  "#9aa8b7",
  "#66727f",
  "#36424f",
  "#26303b",
  "#1b232c",
  "#151c24",
  "#0f151b",
  "#0a0f14",
];

export const theme = createTheme({
  black: "#1c2733",
  colors: { dark: SLATE },
  primaryColor: "indigo",
  primaryShade: 7,
  respectReducedMotion: true, // Where the system asks for less motion, what opens is there at once.
  defaultRadius: "md",
  fontFamily: "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif",
  fontFamilyMonospace: "ui-monospace, 'SF Mono', 'Cascadia Mono', 'Liberation Mono', Menlo, monospace",
  headings: { fontWeight: "650" },
  components: {
    Paper: Paper.extend({ defaultProps: { withBorder: true } }),
    Modal: Modal.extend({ defaultProps: { closeButtonProps: { "aria-label": "Close" } } }),
    Badge: Badge.extend({ defaultProps: { variant: "light", tt: "none", fw: 600 } }),
    Table: Table.extend({ defaultProps: { verticalSpacing: "xs", horizontalSpacing: "sm" } }),
    // Who has no pointer scrolls what has the focus.
    TableScrollContainer: TableScrollContainer.extend({ defaultProps: { tabIndex: 0 } }),
    Tooltip: Tooltip.extend({
      defaultProps: {
        withArrow: true,
        multiline: true,
        maw: 360,
        openDelay: 150,
        events: { hover: true, focus: false, touch: true }, // Of the keyboard `Tip` takes care.
      },
    }),
  },
});

// Greys of text on the page's own surfaces, and what its colours are mixed with: at least 4.5 to 1 everywhere, also on a
// badge's tint.
const READABLE = {
  light: { dimmed: "#56606b", placeholder: "#626d78", error: "#c92a2a", shade: 9, mixed: "black" },
  dark: { dimmed: "#a3afbc", placeholder: "#97a4b1", error: "#ff8787", shade: 3, mixed: "white" },
} as const;
/** How much of a colour stays in its text, in percent. */
const SHARES = {
  yellow: 55,
  orange: 65,
  red: 75,
  teal: 75,
  grape: 75,
  gray: 75,
  blue: 75,
  green: 75,
} as const;

/** Mantine's greys and colours of text are too pale to be read by everybody: darker ones, or paler in the dark. */
export const readable: CSSVariablesResolver = () => ({
  variables: {},
  light: colorsOf("light"),
  dark: colorsOf("dark"),
});

function colorsOf(scheme: keyof typeof READABLE): Record<string, string> {
  const { dimmed, placeholder, error, shade, mixed } = READABLE[scheme];
  const texts = Object.entries(SHARES).flatMap(([color, share]) => {
    const text = `color-mix(in srgb, var(--mantine-color-${color}-${shade}) ${share}%, ${mixed})`;
    return ["text", "light-color", "outline"].map((use) => [`--mantine-color-${color}-${use}`, text]);
  });
  return {
    ...Object.fromEntries(texts),
    "--mantine-color-dimmed": dimmed,
    "--mantine-color-placeholder": placeholder,
    "--mantine-color-error": error,
  };
}
