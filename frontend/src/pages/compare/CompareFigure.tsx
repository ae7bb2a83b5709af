import { Paper, Skeleton, Title, useComputedColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { compareQuery } from "../../api/queries";
import { PlotlyChart, type XRange } from "../../components/PlotlyChart";
import { Problem } from "../../components/Problem";
import { useScreen } from "../../components/useScreen";
import { useZoomed } from "../../components/useZoomed";
import type { By, Measure } from "../../lib/search";
import type { Ends } from "../../lib/zoom";
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
  /** Which part of its x axis it shows at first. */
  zoom: Ends | undefined;
  onXRange: (range: XRange) => void;
}

/** One measurement of all chosen jobs. */
export function CompareFigure({ ids, what, by, smooth, zoom, onXRange }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const { visible, width } = useScreen(frame);
  const theme = useComputedColorScheme("light");
  const options = compareQuery(ids, { what, by, width, theme, smooth });
  const query = useQuery({ ...options, enabled: visible && width > 0 });
  const figure = useZoomed(query.data, zoom, by);
  return (
    <Paper p="sm" ref={frame}>
      <Title order={2} fz="md" mb={4}>
        {TITLES[what]}
      </Title>
      {figure ? (
        <PlotlyChart
          figure={figure}
          label={`${TITLES[what]}: ${figure.layout.meta?.alt ?? ""}`}
          testId={`figure-compare-${what}`}
          file={() => `compare ${what} by ${by}`}
          onXRange={onXRange}
          onDrawn={(ms) => drawn(options.queryKey, ms)}
        />
      ) : (
        !query.error && <Skeleton height={300} />
      )}
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
    </Paper>
  );
}
