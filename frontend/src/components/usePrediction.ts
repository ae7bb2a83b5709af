import { useMutation } from "@tanstack/react-query";
import { client, unwrap } from "../api/client";
import type { JobSpec } from "../api/types";

/** What a worker of the job would hold in memory, for who asks: it takes seconds. */
export const usePrediction = (spec: () => JobSpec) =>
  useMutation({ mutationFn: () => unwrap(client.POST("/api/v1/plans/memory", { body: spec() })) });
