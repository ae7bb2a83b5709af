import { Text, Tooltip } from "@mantine/core";
import { formatSpeedUp } from "../lib/format";

interface Props {
  value: number | null;
  /** What a reader must know to trust it. */
  caveat: string | null;
}

/** A speed-up, marked where it has a caveat, whose words its tooltip holds. */
export function SpeedUp({ value, caveat }: Props) {
  const marked = value !== null && caveat !== null;
  return (
    <Tooltip label={caveat ?? ""} disabled={!marked}>
      <Text span inherit tabIndex={marked ? 0 : undefined} data-testid="speed-up">
        {formatSpeedUp(value, caveat)}
      </Text>
    </Tooltip>
  );
}
