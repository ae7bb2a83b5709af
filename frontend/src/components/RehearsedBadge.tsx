import { Badge, Tooltip } from "@mantine/core";

/** Says of a job's every figure that its compute was not measured but waited for; nothing for a job that trains. */
export function RehearsedBadge({ text, size = "xs" }: { text: string | null; size?: "xs" | "md" }) {
  if (text === null) return null;
  return (
    <Tooltip label={text}>
      <Badge
        size={size}
        color="yellow"
        variant="filled"
        autoContrast
        style={{ flex: "none" }}
        tabIndex={0}
        aria-label={text}
        data-testid="rehearsed"
      >
        rehearsed
      </Badge>
    </Tooltip>
  );
}
