import type { ClusterNode, Device, Maintenance, Waiting } from "../api/types";
import type { Cell } from "./csv";
import { formatRate } from "./format";

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

/** `1 of 2 GPUs and 3 of 4 CPU slots are free`. */
export function freeWords({ devices, free, state }: Pick<ClusterNode, "devices" | "free" | "state">): string {
  const each = kinds(devices).map(
    ({ kind, title, devices: own }) =>
      `${free[kind] ?? 0} of ${own.length} ${title[0]?.toLowerCase() === "s" ? title.toLowerCase() : title}`,
  );
  if (each.length === 0) return "It has no devices.";
  return state === "away" ? "Nothing of it is free while it is away." : `Free: ${each.join(", ")}.`;
}

/** The maintenance that keeps a whole node out of use now. */
export function drainsOf(
  { name, servers }: Pick<ClusterNode, "name" | "servers">,
  all: Maintenance[],
): Maintenance[] {
  return all.filter((one) => one.node === name && servers.includes(one.server) && hasBegun(one));
}

/** `Out of use since 9:07, until 11:00, for a new driver; by ada.` */
export function outOfUseWords({ begins_at, ends_at, note, who }: Maintenance): string {
  const parts = [`since ${new Date(begins_at).toLocaleString()}`];
  parts.push(ends_at ? `until ${new Date(ends_at).toLocaleString()}` : "until it is given back");
  if (note) parts.push(`for: ${note}`);
  if (who) parts.push(`by ${who}`);
  return `Out of use ${parts.join(", ")}.`;
}

/** What else keeps some of its devices out of use: `all devices since 9:07`. Empty: nothing does. A node that is drained
 * as a whole has one of its servers. */
export function keptBy(one: Maintenance, all: Maintenance[]): string {
  const others = all.filter(
    (other) =>
      other.id !== one.id &&
      hasBegun(other) &&
      (other.server === one.server || (other.node !== null && other.node === one.node)) &&
      (one.devices === null ||
        other.devices === null ||
        one.devices.some((id) => other.devices?.includes(id))),
  );
  return others
    .map(
      ({ devices, begins_at }) =>
        `${devices?.join(", ") ?? "all devices"} since ${new Date(begins_at).toLocaleString()}`,
    )
    .join("; ");
}

function hasBegun({ begins_at }: Maintenance): boolean {
  return Date.parse(begins_at) <= Date.now();
}

/** How a node is reached, and what is known of its links: those with an address, or a rate. */
export function addressWords({ address, interfaces }: Pick<ClusterNode, "address" | "interfaces">): string {
  const told = interfaces.filter(
    (one) => one.name !== "lo" && (one.address !== null || one.rate_bps !== null),
  );
  const each = told.map(({ name, address: own, rate_bps }) =>
    [[name, own].filter(Boolean).join(" "), rate_bps === null ? "rate not told" : formatRate(rate_bps)].join(
      ", ",
    ),
  );
  if (each.length === 0) return "only this machine reaches it";
  const links = each.join("; ");
  return told.some((one) => one.address === address) ? links : `${address ?? "no address"} (${links})`;
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
    [
      "node",
      "server",
      "device",
      "model",
      "memory (B)",
      "held by",
      "job id",
      "job's state",
      "since",
      "maintenance from",
    ],
    ...devices.map((one) => [
      one.node,
      one.server,
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
    ["devices", "of", "begins", "ends", "jobs make room", "still there", "what for", "by"],
    ...found.map((one) => [
      one.devices?.join(", ") ?? "all",
      one.node ?? one.server,
      one.begins_at,
      one.ends_at,
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
