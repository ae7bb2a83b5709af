/** A name's parts, each with the sign that it ends with: between them a long name may go on in another line. */
export function partsOf(name: string): string[] {
  return name.split(/(?<=[/._:])(?![/._:])/);
}
