import { Paper, Skeleton, Title, useComputedColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { raceFigureQuery } from "../../api/raceQueries";
import { PlotlyChart } from "../../components/PlotlyChart";
import { Problem } from "../../components/Problem";
import { useScreen } from "../../components/useScreen";
import { drawn } from "../../live/costs";

/** Throughput over the conditions of a race, a curve for each member, with the crossings marked. */
export function RaceFigure({ raceId, name }: { raceId: string; name: string }) {
  const frame = useRef<HTMLDivElement>(null);
  const { visible, width } = useScreen(frame);
  const theme = useComputedColorScheme("light");
  const options = raceFigureQuery(raceId, "throughput", { width, theme });
  const query = useQuery({ ...options, enabled: visible && width > 0 });
  return (
    <Paper p="sm" ref={frame} data-testid="panel-race-throughput">
      <Title order={2} fz="md" mb={4}>
        Throughput
      </Title>
      {query.data ? (
        <PlotlyChart
          figure={query.data}
          label={`Throughput: ${query.data.layout.meta?.alt ?? ""}`}
          file={() => `${name} throughput`}
          testId="figure-race-throughput"
          pending={query.isPlaceholderData}
          onDrawn={(ms) => drawn(options.queryKey, ms)}
        />
      ) : (
        !query.error && <Skeleton height={300} />
      )}
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
    </Paper>
  );
}
