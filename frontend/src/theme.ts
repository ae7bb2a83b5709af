import { Badge, createTheme, Paper, Table, Tooltip } from "@mantine/core";

export const theme = createTheme({
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
    Tooltip: Tooltip.extend({ defaultProps: { withArrow: true, multiline: true, maw: 360, openDelay: 150 } }),
  },
});
