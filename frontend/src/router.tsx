import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";
import { ErrorPage, NotFoundPage } from "./components/ErrorPage";
import { Shell } from "./components/Shell";
import {
  compareSearch,
  formatQuery,
  jobSearch,
  jobsSearch,
  launchSearch,
  parseQuery,
  raceSearch,
} from "./lib/search";

const root = createRootRoute({
  component: Shell,
  notFoundComponent: NotFoundPage,
  errorComponent: ErrorPage,
});

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/race" });
  },
});

export const raceRoute = createRoute({
  getParentRoute: () => root,
  path: "/race",
  validateSearch: raceSearch,
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
  component: lazyRouteComponent(() => import("./pages/races/RankingsPage"), "RankingsPage"),
});

export const jobsRoute = createRoute({
  getParentRoute: () => root,
  path: "/jobs",
  validateSearch: jobsSearch,
  component: lazyRouteComponent(() => import("./pages/jobs/JobsPage"), "JobsPage"),
});

export const jobRoute = createRoute({
  getParentRoute: () => root,
  path: "/jobs/$jobId",
  validateSearch: jobSearch,
  component: lazyRouteComponent(() => import("./pages/job/JobPage"), "JobPage"),
});

export const launchRoute = createRoute({
  getParentRoute: () => root,
  path: "/launch",
  validateSearch: launchSearch,
  component: lazyRouteComponent(() => import("./pages/launch/LaunchPage"), "LaunchPage"),
});

export const compareRoute = createRoute({
  getParentRoute: () => root,
  path: "/compare",
  validateSearch: compareSearch,
  component: lazyRouteComponent(() => import("./pages/compare/ComparePage"), "ComparePage"),
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
]);

export function createAppRouter() {
  return createRouter({
    routeTree: tree,
    parseSearch: parseQuery,
    stringifySearch: formatQuery,
    defaultPreload: "intent",
    scrollRestoration: true,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
