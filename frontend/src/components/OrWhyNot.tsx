import type { ReactNode } from "react";
import { NONE, NOT_MEASURED } from "../lib/format";
import { Tip } from "./Tip";

/** A figure, or what stands in its place and says why there is none, to who points at it, comes by with the keyboard or listens. */
export function OrWhyNot({ why, children }: { why: string; children: ReactNode }) {
  if (children !== NONE && children !== NOT_MEASURED) return children;
  return (
    <Tip label={why}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the reason must be within reach of the keyboard, too */}
      <span role="img" aria-label={why} tabIndex={0} data-testid="none">
        {children}
      </span>
    </Tip>
  );
}
