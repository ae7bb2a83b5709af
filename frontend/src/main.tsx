import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "./styles.css";
import "./figures.css";

import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Access } from "./access/Access";
import { sessionQuery } from "./access/session";
import { ApiProblem } from "./api/client";
import { parseQuery } from "./lib/search";
import { LiveProvider } from "./live/LiveProvider";
import { prefetchDrawing } from "./prefetch";
import { createAppRouter } from "./router";
import { readable, theme } from "./theme";

const queries = new QueryClient({
  defaultOptions: {
    mutations: { networkMode: "always" },
    queries: {
      // Without the internet the service may well be there: on this machine. What cannot be reached says so.
      networkMode: "always",
      refetchOnReconnect: true,
      // Notices say when something changed; coming back to the page asks again in any case.
      staleTime: 30_000,
      retry: (failures, error) =>
        failures < 3 && !(error instanceof ApiProblem && error.status >= 400 && error.status < 500),
      retryDelay: (attempt) => Math.min(1000 * 2 ** attempt, 10_000),
    },
  },
});

const router = createAppRouter(queries);
// The page's code comes, and what draws its figures, while the service says whether it asks for a token.
void queries.prefetchQuery(sessionQuery);
const [matched] = router.getMatchedRoutes(location.pathname);
for (const route of matched) {
  void router.loadRouteChunk(route);
  if (route.options.staticData?.draws?.(parseQuery(location.search))) prefetchDrawing();
}
const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no element #root");

createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} cssVariablesResolver={readable} defaultColorScheme="auto">
      <Notifications position="bottom-right" />
      <QueryClientProvider client={queries}>
        <Access>
          <LiveProvider>
            <RouterProvider router={router} />
          </LiveProvider>
        </Access>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
