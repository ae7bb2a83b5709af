import { Box, Skeleton, useComputedColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { learningQuery } from "../../api/raceQueries";
import { PlotlyChart } from "../../components/PlotlyChart";
import { Problem } from "../../components/Problem";
import { useScreen } from "../../components/useScreen";
import type { By } from "../../lib/search";
import { drawn } from "../../live/costs";

interface Props {
  raceId: string;
  /** What the race is called. */
  name: string;
  /** The condition's place among the race's. */
  condition: number;
  by: By;
}

/** How every plan of a race learned under one condition. */
export function LearningFigure({ raceId, name, condition, by }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const { visible, width } = useScreen(frame);
  const theme = useComputedColorScheme("light");
  const options = learningQuery(raceId, { condition, by, width, theme });
  const query = useQuery({ ...options, enabled: visible && width > 0 });
  const figure = query.data;
  return (
    <Box ref={frame}>
      {figure ? (
        <PlotlyChart
          figure={figure}
          label={`How each plan learned: ${figure.layout.meta?.alt ?? ""}`}
          file={() => `${name} learning ${condition || ""} by ${by}`}
          testId={`figure-race-learning-${condition}`}
          pending={query.isPlaceholderData}
          onDrawn={(ms) => drawn(options.queryKey, ms)}
        />
      ) : (
        !query.error && <Skeleton height={300} />
      )}
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
    </Box>
  );
}
