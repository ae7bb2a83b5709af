import type { FocusEvent } from "react";

const BESIDE_PX = 16;

/**
 * Bring what got the focus in a wide table into sight as a whole, also from under the names of its rows, which stay when
 * it scrolls. A browser does that by itself only where less than 32 pixels of it can be seen.
 */
export function revealCell({ target }: FocusEvent<HTMLElement>) {
  const cell = target.closest("td");
  const names = cell?.parentElement?.firstElementChild;
  const scroller = cell?.closest(".ty-editor");
  if (!cell || !names || names === cell || !scroller) return;
  const [field, frame] = [target.getBoundingClientRect(), scroller.getBoundingClientRect()];
  const hidden = names.getBoundingClientRect().right - field.left;
  if (hidden > 0) scroller.scrollLeft -= hidden + BESIDE_PX;
  else if (field.right > frame.right) scroller.scrollLeft += field.right - frame.right + BESIDE_PX;
}
