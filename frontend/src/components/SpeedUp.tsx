import { Text, VisuallyHidden } from "@mantine/core";
import { formatSpeedUp, NONE } from "../lib/format";
import { WHY_NONE } from "../lib/whyNone";
import { OrWhyNot } from "./OrWhyNot";
import { Tip } from "./Tip";

interface Props {
  value: number | null;
  /** What a reader must know to trust it. */
  caveat: string | null;
}

/** A speed-up, marked where it has a caveat, whose words its tooltip holds. */
export function SpeedUp({ value, caveat }: Props) {
  if (value === null && caveat === null) return <OrWhyNot why={WHY_NONE.speedUp}>{NONE}</OrWhyNot>;
  const marked = caveat !== null;
  return (
    <Tip label={caveat ?? ""} disabled={!marked}>
      <Text span inherit tabIndex={marked ? 0 : undefined} data-testid="speed-up">
        {formatSpeedUp(value, caveat)}
        {value === null && <VisuallyHidden>{caveat}</VisuallyHidden>}
      </Text>
    </Tip>
  );
}
