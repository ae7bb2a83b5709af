import type { Events } from "../api/types";
import type { Cell } from "./csv";

/** `step end`: a kind of event as people read it. */
export function kindName(kind = ""): string {
  return kind.replaceAll("_", " ");
}

/** One event, read from the API's columns. Null: there is none, or it is not known. */
export function eventAt(events: Events, at: number) {
  const number = (column: number[]) => column[at] ?? -1;
  const known = (column: number[]) => (number(column) < 0 ? null : number(column));
  const named = (names: string[], column: number[]) => {
    const index = known(column);
    return index === null ? "" : (names[index] ?? String(index));
  };
  const [start, queued, peer] = [number(events.start_ns), known(events.queued_ns), known(events.peer)];
  return {
    start_ns: start,
    took_ns: number(events.end_ns) - start,
    process: named(events.parties, events.worker),
    kind: kindName(events.kind[at]),
    layer: named(events.layers, events.layer),
    /** As people read it; of a unit that carries several layers, all of them. */
    layer_name: events.buckets[number(events.unit)] ?? named(events.layer_names, events.layer),
    unit: known(events.unit),
    peer: named(events.parties, events.peer),
    queued_ns: queued === null ? null : start - queued,
    priority: peer === null ? null : number(events.priority),
    bytes: number(events.bytes) > 0 ? number(events.bytes) : null,
    clock: events.clock[at] ?? "",
  };
}

/** Events as they are taken along: numbers as they were recorded, times from `first_ns` on. */
export function eventRows(pages: Events[], first_ns: number): Cell[][] {
  const ms = (ns: number | null) => (ns === null ? null : ns / 1e6);
  const head = [
    "at (ms)",
    "took (ms)",
    "process",
    "event",
    "layer",
    "unit",
    "other side",
    "queued (ms)",
    "priority",
    "bytes",
    "clock",
  ];
  const rows = pages.flatMap((events) =>
    events.kind.map((_, at) => {
      const event = eventAt(events, at);
      return [
        ms(event.start_ns - first_ns),
        ms(event.took_ns),
        event.process,
        event.kind,
        event.layer,
        event.unit,
        event.peer,
        ms(event.queued_ns),
        event.priority,
        event.bytes,
        event.clock,
      ];
    }),
  );
  return [head, ...rows];
}
