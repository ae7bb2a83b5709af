import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { wordsQuery } from "../api/queries";
import { capital } from "./Explained";
import { Tip } from "./Tip";

/** A word of the subject with a dotted line below it. Who points at it, or comes by with the keyboard, reads what it
 * means, in the service's words; `children` are shown in place of its name. */
export function Term({ name, children }: { name: string; children?: ReactNode }) {
  const meaning = useMeaning(name);
  return (
    <Tip label={meaning} disabled={meaning === undefined}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: its explanation must be within reach of the keyboard, too */}
      <span className="ty-term" tabIndex={0}>
        {children ?? name}
      </span>
    </Tip>
  );
}

/** What a word means, as a sentence; undefined while it is not known. */
export function useMeaning(name: string): string | undefined {
  const word = useQuery(wordsQuery).data?.find((entry) => entry.name === name);
  return word && `${capital(word.name)}: ${word.text}.`;
}
