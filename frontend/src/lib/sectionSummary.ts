import { isObject } from "../form/schema";

/** What a closed section of the form holds, in a few words; empty where its name says enough. */
export function sectionSummary(name: string, spec: Record<string, unknown>): string {
  const value = spec[name];
  if (!isObject(value)) return "";
  const texts: Record<string, () => (string | false)[]> = {
    model: () => [sourceOf(value)],
    data: () => [sourceOf(value)],
    strategy: () => [String(value.name ?? "")],
    cluster: () => [counted(value.workers, "worker"), value.device !== "auto" && String(value.device)],
    network: () => [
      isText(value.rate) ? value.rate : "no limit",
      typeof value.hosts === "number" && `lab of ${counted(value.hosts, "host")}`,
    ],
    training: () => [
      typeof value.steps === "number" ? counted(value.steps, "step") : counted(value.epochs, "epoch"),
      `batch ${value.global_batch}`,
    ],
    input: () => [
      typeof value.processes === "number"
        ? counted(value.processes, "process", "es")
        : String(value.where ?? ""),
    ],
    memory: () => [value.budget === null || value.budget === "" ? "no budget" : `budget ${value.budget}`],
    optimizer: () => [String(value.name ?? ""), value.offload === true && "offloaded"],
    schedule: () => [String(value.name ?? "")],
    faults: () => [slowed(value.stragglers) || "none"],
    evaluation: () => [everySo(value) || (value.at_end === true ? "at the end" : "never")],
    retry: () => [value.times === 0 ? "never" : counted(value.times, "time")],
    checkpoint: () => [everySo(value) || "none"],
    rehearsal: () => [isText(value.profile) ? "measured profile" : String(value.device ?? "")],
  };
  return (
    texts[name]?.()
      .filter((text) => text !== "" && text !== false)
      .join(", ") ?? ""
  );
}

function sourceOf(value: Record<string, unknown>): string {
  if (typeof value.entrypoint === "string") return value.entrypoint || "your own";
  return String(value.name ?? "");
}

/** `worker 1 slowed`, or `workers 1, 3 slowed`. */
function slowed(stragglers: unknown): string {
  const workers = Array.isArray(stragglers) ? stragglers.filter(isObject).map(({ worker }) => worker) : [];
  return workers.length > 0 ? `worker${workers.length > 1 ? "s" : ""} ${workers.join(", ")} slowed` : "";
}

function counted(value: unknown, what: string, plural = "s"): string {
  return typeof value === "number" ? `${value} ${what}${value === 1 ? "" : plural}` : "";
}

/** `every 100 steps`; steps stand in place of epochs where both are given. */
function everySo({ every_steps, every_epochs, every_seconds }: Record<string, unknown>): string {
  const [often, what] =
    typeof every_steps === "number"
      ? [every_steps, "step"]
      : typeof every_seconds === "number"
        ? [every_seconds, "second"]
        : [every_epochs, "epoch"];
  if (typeof often !== "number") return "";
  return often === 1 ? `every ${what}` : `every ${often} ${what}s`;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
