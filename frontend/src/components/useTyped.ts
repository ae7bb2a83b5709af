import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useRef, useState } from "react";

/** The text of a field that is kept elsewhere, in the address for one: what the field shows, what to call as it is typed,
 * and what is still to be told. `onTyped` hears of the text `ms` after the last key. */
export function useTyped(kept: string, ms: number, onTyped: (text: string) => void) {
  const [typed, setTyped] = useState(kept);
  const told = useRef(kept);
  const tell = useDebouncedCallback((text: string) => {
    told.current = text;
    onTyped(text);
  }, ms);
  useEffect(() => {
    // What the field itself has told may come back when more has been typed; what another says goes before both.
    if (kept !== told.current) {
      tell.cancel();
      setTyped(kept);
    }
    told.current = kept;
  }, [kept, tell]);
  const type = (text: string) => {
    setTyped(text);
    tell(text);
  };
  return { typed, type, tell };
}
