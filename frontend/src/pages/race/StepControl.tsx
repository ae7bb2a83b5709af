import { ActionIcon, Group, Switch } from "@mantine/core";
import { IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { StepField } from "../../components/StepField";
import { Tip } from "../../components/Tip";

/** Steps of which all raced jobs kept every event; null where there is none. */
export interface StepNeighbours {
  min: number | null;
  max: number | null;
  previous: number | null;
  next: number | null;
}

interface Props extends StepNeighbours {
  step: number;
  follow: boolean;
  /** Whether anything still runs, so that there is something to follow. */
  live: boolean;
  onStep: (step: number | undefined) => void;
}

/** From step to step, by hand or as they come. */
export function StepControl({ step, min, max, previous, next, follow, live, onStep }: Props) {
  return (
    <Group gap={6}>
      <Tip label="Previous step (←)">
        <ActionIcon
          variant="default"
          size={32}
          aria-label="Previous step"
          data-testid="step-previous"
          disabled={previous === null}
          onClick={() => previous !== null && onStep(previous)}
        >
          <IconChevronLeft size={18} />
        </ActionIcon>
      </Tip>
      <StepField step={step} min={min ?? 0} max={max ?? step} onStep={onStep} />
      <Tip label="Next step (→)">
        <ActionIcon
          variant="default"
          size={32}
          aria-label="Next step"
          data-testid="step-next"
          disabled={next === null}
          onClick={() => next !== null && onStep(next)}
        >
          <IconChevronRight size={18} />
        </ActionIcon>
      </Tip>
      <Tip label={live ? "Show each new step as it comes (F)" : "Show the latest step (F)"}>
        <div>
          <Switch
            size="sm"
            label={live ? "Follow live" : "Latest"}
            ml={6}
            checked={follow}
            data-testid="follow"
            onChange={(event) => onStep(event.currentTarget.checked ? undefined : step)}
          />
        </div>
      </Tip>
    </Group>
  );
}
