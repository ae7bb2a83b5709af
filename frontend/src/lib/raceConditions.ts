import type { RaceSpec } from "../api/types";

/** What all members of a race run under: `2 workers, batch 64, 200 steps, 100Mbit or 1Gbit, in a lab of 2 hosts`. */
export function raceConditions({ job, rates = [], workers = [], batches = [] }: RaceSpec): string {
  const { cluster, training, network } = job;
  const each = workers.length > 0 ? workers : known(cluster?.workers);
  const batch = batches.length > 0 ? batches : known(training?.global_batch);
  const limits = rates.length > 0 ? rates : (network?.host_rates ?? []);
  const limit = limits.length > 0 ? either(limits) : (network?.rate ?? "no limit of the network");
  const hosts = network?.hosts ?? null;
  const limited = limits.length > 0 || Boolean(network?.rate);
  return [
    each.length > 0 ? `${either(each)} worker${either(each) === "1" ? "" : "s"}` : null,
    batch.length > 0 ? `batch ${either(batch)}` : null,
    training?.steps ? `${training.steps} steps` : training?.epochs ? `${training.epochs} epochs` : null,
    hosts === null ? `${limit}${limited ? ", kept in software" : ""}` : `${limit} in a lab of ${hosts} hosts`,
  ]
    .filter(Boolean)
    .join(", ");
}

function known(value: number | null | undefined): number[] {
  return typeof value === "number" ? [value] : [];
}

/** `2, 4 or 8`. */
function either(values: readonly (string | number)[]): string {
  const [last, ...others] = values.map(String).reverse();
  return others.length > 0 ? `${others.reverse().join(", ")} or ${last}` : `${last}`;
}
