import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";

// How devices are shared, and which are out of use.

/** The machines on which jobs are placed, and who is on each; one that falls silent says nothing, so it is asked again. */
export const nodesQuery = queryOptions({
  queryKey: ["nodes"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/nodes", { signal })),
  meta: { jobs: "all" },
  refetchInterval: 15_000,
});

/** Devices that are out of use, or will be, and who is still on them. */
export const maintenanceQuery = queryOptions({
  queryKey: ["maintenance"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/maintenance", { signal })),
  meta: { jobs: "all" },
});

/** Every project, with what it holds and has used. */
export const projectsQuery = queryOptions({
  queryKey: ["projects"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/projects", { signal })),
  meta: { jobs: "all" },
});
