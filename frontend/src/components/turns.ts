let last: Promise<void> = Promise.resolve();

/** Of charts that come together each is drawn in a turn of its own: what a person does is answered between them. */
export function turn(): Promise<void> {
  last = last.then(() => new Promise((begin) => setTimeout(begin)));
  return last;
}
