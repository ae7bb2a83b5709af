import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
} from "@tanstack/react-router";
import { ErrorPage, NotFoundPage } from "./components/ErrorPage";
import { Shell } from "./components/Shell";
import {
  compareSearch,
  formatQuery,
  jobSearch,
  jobsSearch,
  launchSearch,
  nothingBut,
  parseQuery,
  raceSearch,
  rankingsSearch,
} from "./lib/search";
import {
  drawsCompared,
  drawsJob,
  prefetchCompared,
  prefetchDevices,
  prefetchJob,
  prefetchJobs,
  prefetchRace,
  prefetchStepByStep,
} from "./prefetch";

const root = createRootRouteWithContext<{ queries: QueryClient }>()({
  component: Shell,
  notFoundComponent: NotFoundPage,
  errorComponent: ErrorPage,
});

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: lazyRouteComponent(() => import("./pages/start/HomePage"), "HomePage"),
});

export const raceRoute = createRoute({
  getParentRoute: () => root,
  path: "/race",
  validateSearch: nothingBut(raceSearch),
  staticData: { draws: (raw) => drawsCompared(raceSearch(raw)) },
  loaderDeps: ({ search: { jobs } }) => ({ jobs }),
  loader: ({ context, deps }) => prefetchStepByStep(context.queries, deps),
  component: lazyRouteComponent(() => import("./pages/race/RacePage"), "RacePage"),
});

export const racesRoute = createRoute({
  getParentRoute: () => root,
  path: "/races",
  component: lazyRouteComponent(() => import("./pages/races/RacesPage"), "RacesPage"),
});

export const rankingsRoute = createRoute({
  getParentRoute: () => root,
  path: "/races/$raceId",
  validateSearch: nothingBut(rankingsSearch),
  loader: ({ context, params }) => prefetchRace(context.queries, params.raceId),
  component: lazyRouteComponent(() => import("./pages/races/RankingsPage"), "RankingsPage"),
});

export const jobsRoute = createRoute({
  getParentRoute: () => root,
  path: "/jobs",
  validateSearch: nothingBut(jobsSearch),
  loaderDeps: ({ search }) => search,
  loader: ({ context, deps }) => prefetchJobs(context.queries, deps),
  component: lazyRouteComponent(() => import("./pages/jobs/JobsPage"), "JobsPage"),
});

export const jobRoute = createRoute({
  getParentRoute: () => root,
  path: "/jobs/$jobId",
  staticData: { draws: (raw) => drawsJob(jobSearch(raw)) },
  loaderDeps: ({ search: { tab, baseline, attempt } }) => ({ tab, baseline, attempt }),
  loader: ({ context, params, deps }) => prefetchJob(context.queries, params.jobId, deps),
  validateSearch: nothingBut(jobSearch),
  component: lazyRouteComponent(() => import("./pages/job/JobPage"), "JobPage"),
});

export const launchRoute = createRoute({
  getParentRoute: () => root,
  path: "/launch",
  validateSearch: nothingBut(launchSearch),
  component: lazyRouteComponent(() => import("./pages/launch/LaunchPage"), "LaunchPage"),
});

export const compareRoute = createRoute({
  getParentRoute: () => root,
  path: "/compare",
  validateSearch: nothingBut(compareSearch),
  staticData: { draws: (raw) => drawsCompared(compareSearch(raw)) },
  loaderDeps: ({ search: { jobs } }) => ({ jobs }),
  loader: ({ context, deps }) => prefetchCompared(context.queries, deps),
  component: lazyRouteComponent(() => import("./pages/compare/ComparePage"), "ComparePage"),
});

export const devicesRoute = createRoute({
  getParentRoute: () => root,
  path: "/devices",
  loader: ({ context }) => prefetchDevices(context.queries),
  component: lazyRouteComponent(() => import("./pages/devices/DevicesPage"), "DevicesPage"),
});

export const peopleRoute = createRoute({
  getParentRoute: () => root,
  path: "/people",
  component: lazyRouteComponent(() => import("./pages/people/PeoplePage"), "PeoplePage"),
});

const tree = root.addChildren([
  home,
  raceRoute,
  racesRoute,
  rankingsRoute,
  jobsRoute,
  jobRoute,
  launchRoute,
  compareRoute,
  devicesRoute,
  peopleRoute,
]);

export function createAppRouter(queries: QueryClient) {
  return createRouter({
    context: { queries },
    routeTree: tree,
    parseSearch: parseQuery,
    stringifySearch: formatQuery,
    defaultPreload: "intent",
    scrollRestoration: true,
  });
}

declare module "@tanstack/react-router" {
  interface StaticDataRouteOption {
    /** Whether the page shows figures, by what the address says. */
    draws?: (raw: Record<string, unknown>) => boolean;
  }
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
