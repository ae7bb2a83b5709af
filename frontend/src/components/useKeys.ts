import { useEffect, useRef } from "react";

const TYPES = "textarea, select, [contenteditable=true], input:not([type=checkbox]), [role=dialog]";
// These move their own choice with the arrow keys.
const MOVES = "[role=tab], [role=radio], [role=slider], [role=option], [role=menuitem]";

/** Keys of the whole page by name (`ArrowLeft`, `f`), left alone where what has the focus uses them itself. */
export function useKeys(keys: Record<string, () => void>): void {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      const focused = event.target instanceof Element ? event.target : null;
      if (focused?.closest(TYPES) || (event.key.startsWith("Arrow") && focused?.closest(MOVES))) return;
      const act = current.current[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}
