import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { strategiesQuery } from "../../api/queries";
import { recommendedFirst } from "../../lib/strategies";

/** The strategies to choose from: the recommended ones and who is chosen; the others once they are asked for. */
export function useShownStrategies(chosen: string[]) {
  const [all, setAll] = useState(false);
  const entries = recommendedFirst(useQuery(strategiesQuery).data ?? []);
  const shown = all
    ? entries
    : entries.filter(({ name, recommended }) => recommended || chosen.includes(name));
  return { shown, hidden: entries.length - shown.length, showAll: () => setAll(true) };
}
