/** The step that a person typed, within what can be shown; undefined where it is no number. */
export function typedStep(text: string, min: number, max: number): number | undefined {
  if (!/^\s*\d+\s*$/.test(text)) return undefined;
  return Math.min(Math.max(Number(text), min), max);
}
