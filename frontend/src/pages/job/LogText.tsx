import { memo, type ReactNode } from "react";

interface Props {
  text: string;
  /** Where what is looked for begins, and how long it is. */
  matches: number[];
  length: number;
  /** The match that is shown, by its number. */
  current: number;
}

/** A log with what is looked for marked in it. */
export const LogText = memo(function LogText({ text, matches, length, current }: Props) {
  const parts: ReactNode[] = [];
  let end = 0;
  matches.forEach((start, number) => {
    parts.push(
      text.slice(end, start),
      <mark key={start} data-current={number === current || undefined}>
        {text.slice(start, start + length)}
      </mark>,
    );
    end = start + length;
  });
  return (
    <pre className="ty-log" data-testid="log-text">
      {parts}
      {text.slice(end)}
    </pre>
  );
});
