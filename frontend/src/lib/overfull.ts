/** A larger share of the rate is not written as 100 %. */
export const OVERFULL = 1.005;

/** Why a bin may hold more than the link's rate allows. A rate that was only `declared` holds nothing back. */
export function whyOverfull(declared: boolean): string {
  const burst =
    "a burst. Bytes count when they are handed over, and a buffer then lets them out at the rate.";
  return declared ? `${burst} Or the link is faster than the job declared.` : burst;
}
