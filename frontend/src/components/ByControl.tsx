import { SegmentedControl } from "@mantine/core";
import type { By } from "../lib/search";

const BY: Record<By, string> = { step: "Steps", samples: "Samples", bytes: "Bytes", time: "Time" };

interface Props {
  by: By;
  onBy: (by: By) => void;
  testId: string;
}

/** Over what curves are drawn. */
export function ByControl({ by, onBy, testId }: Props) {
  return (
    <SegmentedControl
      size="xs"
      aria-label="Over what"
      data-testid={testId}
      value={by}
      onChange={(chosen) => onBy(chosen as By)}
      data={Object.entries(BY).map(([value, label]) => ({ value, label }))}
    />
  );
}
