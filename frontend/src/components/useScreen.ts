import { type RefObject, useEffect, useLayoutEffect, useState } from "react";

// Widths are asked for in steps, so that dragging a window's edge does not ask for a figure per pixel.
const WIDTH_STEP = 40;
const LEAST_WIDTH = 200;
const NEAR_PX = 150;

/** Whether an element is (nearly) on screen, and how wide it is, in CSS pixels; 0 before it is laid out. */
export function useScreen(element: RefObject<HTMLElement | null>): { visible: boolean; width: number } {
  const [visible, setVisible] = useState(false);
  const [width, setWidth] = useState(0);
  // Observers tell after the first paint; what a figure needs is asked for before.
  useLayoutEffect(() => {
    const target = element.current;
    if (target === null) return;
    setWidth(widthOf(target));
    const { top, bottom } = target.getBoundingClientRect();
    setVisible(top < window.innerHeight + NEAR_PX && bottom > -NEAR_PX);
  }, [element]);
  useEffect(() => {
    const target = element.current;
    if (target === null) return;
    const seen = new IntersectionObserver((entries) => setVisible(entries.at(-1)?.isIntersecting ?? false), {
      rootMargin: `${NEAR_PX}px`,
    });
    const sized = new ResizeObserver(() => setWidth((before) => widthOf(target) || before));
    seen.observe(target);
    sized.observe(target);
    return () => {
      seen.disconnect();
      sized.disconnect();
    };
  }, [element]);
  return { visible, width };
}

/** 0 for what is not laid out. */
function widthOf(target: HTMLElement): number {
  const rounded = Math.round(target.clientWidth / WIDTH_STEP) * WIDTH_STEP;
  return rounded > 0 ? Math.max(LEAST_WIDTH, rounded) : 0;
}
