import type { Device, Maintenance, Waiting } from "../api/types";
import type { Cell } from "./csv";

/** Devices of one kind, free ones and held ones. */
export interface DeviceKind {
  kind: string;
  title: string;
  devices: Device[];
  free: number;
}

const TITLES: Record<string, string> = {
  cuda: "GPUs",
  cpu: "CPU slots",
  rehearsal: "Slots for rehearsals",
};

/** Devices by kind, GPUs first. */
export function kinds(devices: Device[]): DeviceKind[] {
  const known = [...new Set([...Object.keys(TITLES), ...devices.map(({ kind }) => kind)])];
  return known.flatMap((kind) => {
    const own = devices.filter((device) => device.kind === kind);
    if (own.length === 0) return [];
    const now = Date.now();
    const free = own.filter(
      ({ job_id, drained_at }) => job_id === null && (!drained_at || Date.parse(drained_at) > now),
    ).length;
    return [{ kind, title: TITLES[kind] ?? kind, devices: own, free }];
  });
}

const NEEDED: Record<string, [string, string]> = {
  cuda: ["GPU", "GPUs"],
  cpu: ["CPU slot", "CPU slots"],
  rehearsal: ["slot for rehearsals", "slots for rehearsals"],
};

/** `2 CPU slots`: what a job in the queue waits for. */
export function needs({ kind, devices }: Pick<Waiting, "kind" | "devices">): string {
  if (kind === null) return "nothing that this server has";
  const [one, several] = NEEDED[kind] ?? [kind, kind];
  return `${devices} ${devices === 1 ? one : several}`;
}

/** Devices as rows of a file, with what is in their table in words as it was told. */
export function deviceRows(devices: Device[]): Cell[][] {
  return [
    ["device", "model", "memory (B)", "held by", "job id", "job's state", "since", "maintenance from"],
    ...devices.map((one) => [
      one.name,
      one.model,
      one.memory_bytes,
      one.job_name,
      one.job_id,
      one.job_state,
      one.since,
      one.drained_at,
    ]),
  ];
}

/** Devices in maintenance, likewise. */
export function maintenanceRows(found: Maintenance[]): Cell[][] {
  return [
    ["devices", "of", "begins", "jobs make room", "still there", "what for", "by"],
    ...found.map((one) => [
      one.devices?.join(", ") ?? "all",
      one.server,
      one.begins_at,
      String(one.makes_room),
      one.holders.map(({ job_name }) => job_name).join(", "),
      one.note,
      one.who,
    ]),
  ];
}

/** Jobs that wait, likewise. */
export function waitingRows(waiting: Waiting[]): Cell[][] {
  return [
    [
      "job",
      "job id",
      "needs",
      "why it waits",
      "again at",
      "starts at, by estimate",
      "estimated by",
      "priority",
      "waits since",
    ],
    ...waiting.map((one) => [
      one.job_name,
      one.job_id,
      needs(one),
      one.message,
      one.retry_at,
      one.starts_at,
      one.starts_by,
      one.priority,
      one.since,
    ]),
  ];
}
