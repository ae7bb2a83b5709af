import { Fragment } from "react";
import { partsOf } from "../lib/breaks";

/** A name that may be long, as that of one's own model: it goes on in another line where a reader expects it. */
export function LongName({ name }: { name: string }) {
  return partsOf(name).map((part, place) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: a name's parts have no other key, and do not move
    <Fragment key={place}>
      {place > 0 && <wbr />}
      {part}
    </Fragment>
  ));
}
