import { Box, Group, Paper, Skeleton, Text, Title, useComputedColorScheme } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { figureQuery, figuresQuery, jobQuery } from "../api/queries";
import type { PlotlyFigure } from "../api/types";
import type { Point } from "../lib/lit";
import { onScale, type Scale } from "../lib/scale";
import type { Ends } from "../lib/zoom";
import { drawn } from "../live/costs";
import { Explained } from "./Explained";
import type { PlotArea } from "./Measure";
import { PlotlyChart, type XRange } from "./PlotlyChart";
import { Problem } from "./Problem";
import { useScreen } from "./useScreen";
import { useZoomed } from "./useZoomed";

interface Props {
  jobId: string;
  /** Its name in the catalogue of figures. */
  name: string;
  step?: number;
  to_step?: number;
  from_ns?: number;
  to_ns?: number;
  /** A wait to light up. */
  why?: string;
  /** Of the utilization: the links that are drawn, with commas. */
  links?: string;
  /** What the speed-up is measured against. */
  baseline?: string;
  /** The one that is shown; without: the latest. */
  attempt?: number;
  /** Of memory: bytes that a worker is predicted to hold at the most. */
  predicted?: number;
  actions?: ReactNode;
  /** Below the drawing. */
  footer?: ReactNode;
  /** What each figure that arrives says about itself. Must be stable. */
  onMeta?: (meta: Record<string, unknown>) => void;
  onXRange?: (range: XRange, meta: Record<string, unknown>) => void;
  /** A point was clicked. */
  onPoint?: (point: Point) => void;
  /** A point is pointed at; undefined: no longer. */
  onPointed?: (point: Point | undefined) => void;
  /** The layer that is lit up. */
  layer?: number;
  /** About how high it will be, in pixels: what lies below it and will be out of sight is not asked for meanwhile. */
  height?: number;
  /** Which part of its x axis it shows at first; later ones are the reader's. */
  zoom?: Ends;
  /** The wheel zooms time around the pointer. */
  wheel?: boolean;
  /** What lies over the drawing. */
  overlay?: (area: PlotArea) => ReactNode;
  /** Clicks are the overlay's: two in a row do not show everything again. */
  measuring?: boolean;
  /** Each figure that arrives. Must be stable. */
  onFigure?: (figure: PlotlyFigure) => void;
  /** What its axes show, in place of their own ends. Must be stable. */
  scale?: Scale;
}

/** One figure of one job, asked for while it is on screen and again when the job's data changed. */
export function JobFigure({
  jobId,
  name,
  actions,
  footer,
  onMeta,
  onXRange,
  onPoint,
  onPointed,
  layer,
  onFigure,
  scale,
  height = 260,
  zoom,
  wheel,
  overlay,
  measuring,
  ...view
}: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const { visible, width } = useScreen(frame);
  const theme = useComputedColorScheme("light");
  const cache = useQueryClient();
  const entry = useQuery(figuresQuery).data?.find((figure) => figure.name === name);
  // A timeline of many steps holds no layers to light up in place: the service draws it for one.
  const [far, setFar] = useState(false);
  const options = figureQuery(jobId, name, { width, theme, ...view, layer: far ? layer : undefined });
  const query = useQuery({ ...options, enabled: visible && width > 0 });
  // Out of sight it stays as it was.
  const [lit, setLit] = useState(layer);
  if (visible && lit !== layer) setLit(layer);
  const meta = query.data?.layout.meta;
  useEffect(() => {
    if (meta) onMeta?.(meta);
    if (meta) setFar(meta.level === "rollup");
  }, [meta, onMeta]);
  useEffect(() => {
    if (query.data) onFigure?.(query.data);
  }, [query.data, onFigure]);
  const scaled = useMemo(
    () => query.data && (scale ? onScale(query.data, scale) : query.data),
    [query.data, scale],
  );
  const figure = useZoomed(scaled, zoom);
  const title = entry?.title ?? name;
  return (
    <Paper p="sm" ref={frame} data-testid={`panel-${name}`}>
      <Group justify="space-between" gap="xs" mb={4}>
        <Group gap={6} wrap="nowrap">
          <Title order={2} fz="md">
            {title}
          </Title>
          {entry && <Explained summary={entry.summary} definitions={entry.definitions} />}
        </Group>
        {actions}
      </Group>
      {figure ? (
        <PlotlyChart
          figure={figure}
          label={meta?.alt ? `${title}: ${meta.alt}` : title}
          testId={`figure-${name}`}
          file={() => `${cache.getQueryData(jobQuery(jobId).queryKey)?.name ?? jobId} ${name}`}
          onDrawn={(ms) => drawn(options.queryKey, ms)}
          onXRange={onXRange && ((range) => onXRange(range, meta ?? {}))}
          onPoint={onPoint}
          onPointed={onPointed}
          layer={lit}
          wheel={wheel}
          overlay={overlay}
          measuring={measuring}
          pending={query.isPlaceholderData}
        />
      ) : (
        !query.error && <Skeleton height={height} radius="md" />
      )}
      {footer}
      {query.error && (
        <Box mt="xs">
          <Problem error={query.error} onRetry={() => void query.refetch()} />
          {query.data && (
            <Text size="xs" c="dimmed" mt={4}>
              The drawing above is the last one that arrived.
            </Text>
          )}
        </Box>
      )}
    </Paper>
  );
}
