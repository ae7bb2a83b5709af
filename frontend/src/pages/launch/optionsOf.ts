import type { AxisEntry } from "../../api/types";
import { axisOf, type Choice } from "../../lib/overrides";

/** The values of a choice; what is not built yet cannot be picked. None for a size. */
export function optionsOf(choice: Choice, axes: AxisEntry[]) {
  if (choice === "update") return ["worker", "server"].map((name) => ({ value: name, label: name }));
  const values = axes.find((axis) => axis.name === axisOf(choice))?.values ?? [];
  return values.map(({ name, available }) => ({ value: name, label: name, disabled: !available }));
}
