import { Paper, Skeleton, Title, useComputedColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { raceFigureQuery } from "../../api/raceQueries";
import { PlotlyChart, type XRange } from "../../components/PlotlyChart";
import { Problem } from "../../components/Problem";
import { useScreen } from "../../components/useScreen";
import { useZoomed } from "../../components/useZoomed";
import type { Ends } from "../../lib/zoom";
import { drawn } from "../../live/costs";

interface Props {
  raceId: string;
  /** What the race is called. */
  name: string;
  /** Which part of its x axis it shows at first. */
  zoom: Ends | undefined;
  onXRange: (range: XRange) => void;
}

/** Throughput over the conditions of a race, a curve for each member, with the crossings marked. */
export function RaceFigure({ raceId, name, zoom, onXRange }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const { visible, width } = useScreen(frame);
  const theme = useComputedColorScheme("light");
  const options = raceFigureQuery(raceId, "throughput", { width, theme });
  const query = useQuery({ ...options, enabled: visible && width > 0 });
  const figure = useZoomed(query.data, zoom);
  return (
    <Paper p="sm" ref={frame} data-testid="panel-race-throughput">
      <Title order={2} fz="md" mb={4}>
        Throughput
      </Title>
      {figure ? (
        <PlotlyChart
          figure={figure}
          label={`Throughput: ${figure.layout.meta?.alt ?? ""}`}
          file={() => `${name} throughput`}
          testId="figure-race-throughput"
          pending={query.isPlaceholderData}
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
