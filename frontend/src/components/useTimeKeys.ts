import { windowBy } from "../lib/timeline";
import { useKeys } from "./useKeys";

/** Looks closer, further and aside by the keys of the usual trace viewers: W, S, A, D; also + and −. */
export function useTimeKeys(
  shown: { from_ns?: number; to_ns?: number },
  onWindow: (window: { from_ns: number; to_ns: number }) => void,
): void {
  const look = (times: number, by: number) => () => {
    const window = windowBy(shown, times, by);
    if (window !== undefined) onWindow(window);
  };
  const [closer, further] = [look(0.5, 0), look(2, 0)];
  useKeys({ w: closer, "+": closer, s: further, "-": further, a: look(1, -0.25), d: look(1, 0.25) });
}
