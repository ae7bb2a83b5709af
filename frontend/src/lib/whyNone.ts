/** Why a figure may not be there, by what it is. */
export const WHY_NONE = {
  steps: "No step after the warm-up has ended",
  loss: "No step has ended",
  wire: "PyTorch's own collectives decide what travels: the plan declares no bytes, and none were counted",
  accuracy: "No evaluation has ended",
  target:
    "No target accuracy was set, it has not been reached, or the job begins with another job's checkpoint, whose time is not its own",
  speedUp: "No baseline to compare with, or not enough steps of both after the warm-up",
  interval: "Too little was measured for an interval",
  scaling: "Not comparable by equal batches",
  convergence: "One of the two has not reached the target, or they are not comparable",
  first: "The others are compared with this one",
  start: "The job has not started",
  place: "Three rounds are the fewest that prove something",
  processors:
    "Not measured: the machine does not say how busy its processors are (it has no /proc), or too few steps were measured",
  port: "No rate of a link is known, nothing was waited for, or the events of those steps are gone",
  limit: "Too little was measured to say what limits it",
} as const;
