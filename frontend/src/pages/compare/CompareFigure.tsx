import { Paper, Skeleton, Title, useComputedColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { compareQuery } from "../../api/queries";
import { PlotlyChart } from "../../components/PlotlyChart";
import { Problem } from "../../components/Problem";
import { useScreen } from "../../components/useScreen";
import type { By, Measure } from "../../lib/search";
import { drawn } from "../../live/costs";

const TITLES: Record<Measure, string> = {
  loss: "Training loss",
  accuracy: "Test accuracy",
  throughput: "Throughput",
};

interface Props {
  ids: string[];
  what: Measure;
  by: By;
  /** Percent of the points that a moving average spans; none given: as the service decides. */
  smooth: number | undefined;
}

/** One measurement of all chosen jobs. */
export function CompareFigure({ ids, what, by, smooth }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const { visible, width } = useScreen(frame);
  const theme = useComputedColorScheme("light");
  const options = compareQuery(ids, { what, by, width, theme, smooth });
  const query = useQuery({ ...options, enabled: visible && width > 0 });
  return (
    <Paper p="sm" ref={frame}>
      <Title order={2} fz="md" mb={4}>
        {TITLES[what]}
      </Title>
      {query.data ? (
        <PlotlyChart
          figure={query.data}
          label={`${TITLES[what]}: ${query.data.layout.meta?.alt ?? ""}`}
          testId={`figure-compare-${what}`}
          file={() => `compare ${what} by ${by}`}
          onDrawn={(ms) => drawn(options.queryKey, ms)}
        />
      ) : (
        !query.error && <Skeleton height={300} />
      )}
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
    </Paper>
  );
}
