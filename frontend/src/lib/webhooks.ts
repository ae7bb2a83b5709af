import type { Delivery } from "../api/types";

/** What a webhook may be told, and how a person would say it. */
export const EVENTS = [
  { value: "job.ended", label: "a job has ended" },
  { value: "job.failed", label: "a job has failed" },
  { value: "race.ended", label: "a race has its verdict" },
] as const;
export type Told = (typeof EVENTS)[number]["value"];

const STATES = {
  delivered: { word: "arrived", color: "green" },
  waiting: { word: "waits", color: "yellow" },
  failed: { word: "given up", color: "red" },
};

/** How a message stands. */
export function stateOf({ state }: Pick<Delivery, "state">): { word: string; color: string } {
  return STATES[state];
}

/** What became of a message: how often it was sent, what came back, when it is sent again. */
export function fateOf({ tries, status, trouble, next_at }: Delivery): string {
  const times = tries === 1 ? "once" : `${tries} times`;
  const sent = tries === 0 ? "not sent yet" : `sent ${times}`;
  const answer = trouble ?? (status === null ? "" : `answered with ${status}`);
  const again = next_at && tries > 0 ? `again at ${new Date(next_at).toLocaleTimeString()}` : "";
  return [sent, answer, again].filter(Boolean).join("; ");
}
