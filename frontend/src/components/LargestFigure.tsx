import { Box, useComputedColorScheme } from "@mantine/core";
import { IconChartLine } from "@tabler/icons-react";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { largestFigureQuery } from "../api/queries";
import type { JobSpec } from "../api/types";
import { drawn } from "../live/costs";
import { AskingButton } from "./AskingButton";
import { PlotlyChart } from "./PlotlyChart";
import { useScreen } from "./useScreen";

interface Props {
  spec: JobSpec;
  /** Of a worker, in bytes: up to there it is drawn. */
  memory: number;
  /** What its files are called. */
  file: string;
}

/** Draws, for who asks, the largest batch of a job over a worker's memory, and how fast it is trained. */
export function LargestFigure({ spec, memory, file }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const { width } = useScreen(frame);
  const theme = useComputedColorScheme("light");
  const [asked, setAsked] = useState(false);
  const queries = useQueryClient();
  const options = largestFigureQuery(spec, String(memory), { width, theme });
  const query = useQuery({ ...options, enabled: asked && width > 0, placeholderData: keepPreviousData });
  return (
    <Box ref={frame} mt="xs">
      <AskingButton
        icon={<IconChartLine size={14} />}
        label="Draw it over the memory"
        testId="draw-largest"
        pending={query.isFetching}
        error={query.error}
        onAsk={() => (asked ? void query.refetch() : setAsked(true))}
        onCancel={() => {
          setAsked(false);
          void queries.cancelQueries({ queryKey: options.queryKey });
        }}
        problemTestId="draw-largest-problem"
      >
        {query.data
          ? "Smaller batches of each way, with the memory that they take."
          : "The largest batch, and how fast it is trained, for less memory, too. Takes up to a minute."}
      </AskingButton>
      {query.data && (
        <PlotlyChart
          figure={query.data}
          label={`Largest batch: ${query.data.layout.meta?.alt ?? ""}`}
          testId="figure-largest"
          file={() => `${file} largest batch over memory`}
          onDrawn={(ms) => drawn(options.queryKey, ms)}
          pending={query.isPlaceholderData}
        />
      )}
    </Box>
  );
}
