import { Fragment } from "react";

/** The service's words, with what it marks by `backticks` as code. */
export function Marked({ text }: { text: string }) {
  return text.split(/`([^`]+)`/).map((part, place) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: a text's parts have no other key, and do not move
    place % 2 === 1 ? <code key={place}>{part}</code> : <Fragment key={place}>{part}</Fragment>,
  );
}
