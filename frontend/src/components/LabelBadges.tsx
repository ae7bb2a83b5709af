import { Badge } from "@mantine/core";
import { Tip } from "./Tip";

interface Labels {
  /** What compute times rest on; null for a job that trains. */
  rehearsed?: string | null;
  /** Which workers are slowed on purpose; null for a job without. */
  slowed?: string | null;
}

/** What must be known of a job's every figure: that its compute was not measured but waited for, and that some of its
 * workers are slowed on purpose. Nothing for a job that trains as it is. */
export function LabelBadges({ of, size = "xs" }: { of: Labels; size?: "xs" | "md" }) {
  return (
    <>
      <LabelBadge name="rehearsed" colour="yellow" text={of.rehearsed} size={size} />
      <LabelBadge name="slowed" colour="orange.4" text={of.slowed} size={size} />
    </>
  );
}

interface Props {
  name: string;
  colour: string;
  text: string | null | undefined;
  size: "xs" | "md";
}

function LabelBadge({ name, colour, text, size }: Props) {
  if (!text) return null;
  return (
    <Tip label={text}>
      <Badge
        size={size}
        color={colour}
        variant="filled"
        autoContrast
        style={{ flex: "none" }}
        tabIndex={0}
        aria-label={text}
        data-testid={name}
      >
        {name}
      </Badge>
    </Tip>
  );
}
