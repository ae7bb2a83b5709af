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
    optimizer: () => [String(value.name ?? "")],
    schedule: () => [String(value.name ?? "")],
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

function counted(value: unknown, what: string): string {
  return typeof value === "number" ? `${value} ${what}${value === 1 ? "" : "s"}` : "";
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
