import { Badge, createTheme, type MantineColorsTuple, Paper, Table, Tooltip } from "@mantine/core";

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
  primaryShade: { light: 7, dark: 5 },
  defaultRadius: "md",
  fontFamily: "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif",
  fontFamilyMonospace: "ui-monospace, 'SF Mono', 'Cascadia Mono', 'Liberation Mono', Menlo, monospace",
  headings: { fontWeight: "650" },
  components: {
    Paper: Paper.extend({ defaultProps: { withBorder: true } }),
    Badge: Badge.extend({ defaultProps: { variant: "light", tt: "none", fw: 600 } }),
    Table: Table.extend({ defaultProps: { verticalSpacing: "xs", horizontalSpacing: "sm" } }),
    Tooltip: Tooltip.extend({
      defaultProps: {
        withArrow: true,
        multiline: true,
        maw: 360,
        openDelay: 150,
        events: { hover: true, focus: true, touch: true }, // Also for keyboards and fingers.
      },
    }),
  },
});
