import { useEffect, useRef, useState } from "react";
import { INCOMPLETE, ownCode } from "../../lib/ownCode";

/**
 * A person's own code is run for a plan only as it was when `release` was last called: a half typed path may name
 * something else. `held` says whether a specification must wait for that.
 */
export function useHeldCode(spec: Record<string, unknown>) {
  const [released, setReleased] = useState(() => ownCode(spec));
  const [asked, ask] = useState(0);
  const latest = useRef(spec);
  latest.current = spec;
  // What leaving a field has changed is released, too.
  useEffect(() => {
    if (asked > 0) setReleased(ownCode(latest.current));
  }, [asked]);
  const held = (other: Record<string, unknown>) => {
    const code = ownCode(other);
    return code !== null && (code === INCOMPLETE || code !== released);
  };
  return { held, release: () => ask((times) => times + 1) };
}
