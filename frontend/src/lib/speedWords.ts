/** How a job's times and its samples per second are made: who divides one by the other would not know why they differ. The
 * terminal says the same (`SPEED_WORDS` in `backend/rounding.py`). */
export const SPEED_WORDS =
  "Iteration is the median of the slowest worker; samples/s is the sum over the workers, of each its mean samples per step over its own median iteration";

/** What stands beside the interval of a speed-up of two runs; the terminal says the same (`INTERVAL_WORDS`). */
export const INTERVAL_WORDS =
  "its 95 % over the steps of these runs: two runs of one job may lie further apart, which a race shows";
