import type { Checkpoints, Job } from "../api/types";
import { arrival } from "./arrival";
import type { Cell } from "./csv";

/** A job's attempts as rows of a file, the first one first: moments as the service says them, times in seconds. */
export function attemptRows(attempts: Job["attempts"]): Cell[][] {
  return [
    [
      "attempt",
      "id",
      "state",
      "from step",
      "started",
      "ended",
      "took (s)",
      "processes",
      "devices",
      "ended because",
      "exit code",
      "telemetry",
    ],
    ...attempts.map((one) => [
      one.number,
      one.id,
      one.state,
      one.resumed_step ?? 0,
      one.started_at,
      one.ended_at,
      one.started_at && one.ended_at ? (Date.parse(one.ended_at) - Date.parse(one.started_at)) / 1000 : null,
      one.parties.join(", "),
      one.devices.join(", "),
      one.message ?? one.reason,
      one.exit_code,
      arrival(one),
    ]),
  ];
}

/** The states that a job went through as rows of a file, as the service says them. */
export function historyRows(history: Job["history"]): Cell[][] {
  return [
    ["at", "attempt", "from", "to", "reason", "message"],
    ...history.map((one) => [one.at, one.attempt, one.from_state, one.to_state, one.reason, one.message]),
  ];
}

/** How an attempt ended, in words. */
export function endOf({ message, reason, exit_code }: Job["attempts"][number]): string | null {
  const said = message ?? reason;
  return said && exit_code && !said.includes("exit code") ? `${said} (exit code ${exit_code})` : said;
}

/** What the history says of each entry: not again what the one before or an attempt's row says. */
export function historyWords({ history, attempts }: Pick<Job, "history" | "attempts">): (string | null)[] {
  const ends = new Set(attempts.map(({ message, reason }) => message ?? reason));
  const words = history.map(({ message, reason }) => message ?? reason);
  return words.map((text, place) => (ends.has(text) || text === words[place - 1] ? null : text));
}

/** What can be had of a job's model, as rows of a file: what it ended with, then its checkpoints. */
export function checkpointRows({ end, items }: Checkpoints): Cell[][] {
  return [
    ["after step", "what", "written", "attempt", "bytes"],
    ...(end ? [[end.step, "end", null, end.attempt, null]] : []),
    ...items.map((one) => [one.step, "checkpoint", one.written_at, one.attempt, one.bytes]),
  ];
}
