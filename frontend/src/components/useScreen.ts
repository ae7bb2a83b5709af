import { type RefObject, useEffect, useState } from "react";

// Widths are asked for in steps, so that dragging a window's edge does not ask for a figure per pixel.
const WIDTH_STEP = 40;

/** Whether an element is (nearly) on screen, and how wide it is, in CSS pixels; 0 before it is laid out. */
export function useScreen(element: RefObject<HTMLElement | null>): { visible: boolean; width: number } {
  const [visible, setVisible] = useState(false);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const target = element.current;
    if (target === null) return;
    const seen = new IntersectionObserver((entries) => setVisible(entries.at(-1)?.isIntersecting ?? false), {
      rootMargin: "150px",
    });
    const sized = new ResizeObserver(() => {
      const rounded = Math.round(target.clientWidth / WIDTH_STEP) * WIDTH_STEP;
      if (rounded > 0) setWidth(Math.max(200, rounded));
    });
    seen.observe(target);
    sized.observe(target);
    return () => {
      seen.disconnect();
      sized.disconnect();
    };
  }, [element]);
  return { visible, width };
}
