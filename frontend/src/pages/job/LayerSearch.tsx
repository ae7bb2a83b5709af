import { ActionIcon, Group, Text } from "@mantine/core";
import { IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { layerEventsQuery } from "../../api/eventQueries";
import { useKeys } from "../../components/useKeys";
import { formatMs } from "../../lib/format";
import { around, nextAfter, occurrencesIn } from "../../lib/occurrences";
import { LayerSelect } from "./LayerSelect";

interface Props {
  jobId: string;
  attempt: number | undefined;
  layers: { value: string; label: string }[];
  layer: number | undefined;
  /** Of whose events it is; undefined: no single step is shown. */
  step: number | undefined;
  shown: { from_ns?: number; to_ns?: number };
  /** Stable. */
  onLayer: (layer: number | undefined) => void;
  onWindow: (window: { from_ns: number; to_ns: number }) => void;
}

/** Finds a layer in a timeline: it is lit up, and its first event in the step comes into view; N and P go on. */
export function LayerSearch({ jobId, attempt, layers, layer, step, shown, onLayer, onWindow }: Props) {
  const query = useQuery({
    ...layerEventsQuery(jobId, attempt, step ?? 0, layer ?? 0),
    enabled: step !== undefined && layer !== undefined,
  });
  const found = useMemo(
    () => (query.data && layer !== undefined && step !== undefined ? occurrencesIn(query.data) : []),
    [query.data, layer, step],
  );
  const [at, setAt] = useState<number>();
  // Who has just chosen a layer is taken to it, when its events have come.
  const [wanted, setWanted] = useState<number>();
  // What is at hand is of one step: in another one nothing was gone to, and nobody waits to be taken along.
  const place = `${attempt} ${step}`;
  const [of, setOf] = useState(place);
  if (of !== place) {
    setOf(place);
    setAt(undefined);
    setWanted(undefined);
  }
  const go = (by: 1 | -1) => {
    const next = nextAfter(found, at, by);
    const event = found[next];
    if (event === undefined) return;
    setAt(next);
    onWindow(around(event, shown));
  };
  useEffect(() => {
    if (wanted === undefined || wanted !== layer || !query.data) return;
    setWanted(undefined);
    go(1);
  });
  useKeys({
    "/": () => document.querySelector<HTMLElement>("[data-testid=layer]")?.focus(),
    n: () => go(1),
    p: () => go(-1),
  });
  const choose = (chosen: number | undefined) => {
    setAt(undefined);
    setWanted(chosen);
    onLayer(chosen);
    // The field would take N and P for letters.
    if (chosen !== undefined)
      document.querySelector<HTMLElement>("[data-testid=figure-timeline]")?.focus({ preventScroll: true });
  };
  const event = at === undefined ? undefined : found[at];
  const count = `${query.data?.next_cursor ? "the first " : ""}${found.length}`;
  return (
    <Group gap={4} wrap="nowrap">
      <LayerSelect layers={layers} layer={layer} onLayer={choose} placeholder="Find a layer ( / )" />
      {layer !== undefined && found.length > 0 && (
        <>
          <ActionIcon
            variant="default"
            size="sm"
            aria-label="Previous event of the layer"
            onClick={() => go(-1)}
          >
            <IconChevronLeft size={14} />
          </ActionIcon>
          <ActionIcon
            variant="default"
            size="sm"
            aria-label="Next event of the layer"
            onClick={() => go(1)}
            data-testid="layer-next"
          >
            <IconChevronRight size={14} />
          </ActionIcon>
        </>
      )}
      {layer !== undefined && (
        <Text size="xs" c="dimmed" data-testid="layer-found" aria-live="polite">
          {event
            ? `${(at ?? 0) + 1} of ${count}: ${event.party} ${event.kind}, ${formatMs((event.end - event.start) / 1e6)}`
            : wordsOf(found.length > 0 ? count : undefined, step, query.isFetching)}
        </Text>
      )}
    </Group>
  );
}

function wordsOf(count: string | undefined, step: number | undefined, fetching: boolean): string {
  if (step === undefined) return "choose a step to jump to its events";
  if (count !== undefined) return `${count} ${count === "1" ? "event" : "events"} in step ${step}`;
  return fetching ? "" : `no event of step ${step} was kept`;
}
