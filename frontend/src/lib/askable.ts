// What one may ask about a job before it runs. No React here.
import type { JobSpec, PlanView } from "../api/types";

export interface Question {
  name: "memory" | "batch" | "codecs";
  title: string;
}

/** The questions that have an answer: what a rehearsal's model would hold is not predicted, and where nothing is sent
 * no codec pays. */
export function askable(plan: PlanView, spec: JobSpec): Question[] {
  if (plan.peer !== null) return [];
  const trains = spec.fidelity === undefined || spec.fidelity === "train";
  const questions: (Question | false)[] = [
    trains && { name: "memory", title: "Memory" },
    trains && { name: "batch", title: "Largest batch" },
    plan.wire_bytes_per_step !== 0 && { name: "codecs", title: "Where codecs pay" },
  ];
  return questions.filter((one) => one !== false);
}
