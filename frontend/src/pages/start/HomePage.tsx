import { Skeleton } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Navigate } from "@tanstack/react-router";
import { useRef } from "react";
import { recentJobsQuery } from "../../api/queries";
import { racesQuery } from "../../api/raceQueries";
import { Problem } from "../../components/Problem";
import { type Landing, landing } from "../../lib/landing";
import { findRaces } from "../../lib/races";
import { StartPage } from "./StartPage";

/** Goes on to what is worth seeing first, by what is there now: what another page asked for may be of before the first
 * race. It decides once: whoever reads the start page is not carried away. Only the newest races and jobs are looked at,
 * a page of each. */
export function HomePage() {
  const races = useInfiniteQuery({ ...racesQuery, refetchOnMount: "always" });
  const jobs = useQuery({ ...recentJobsQuery, refetchOnMount: "always" });
  const decided = useRef<Landing>(undefined);
  const known = [races, jobs].every((query) => query.isSuccess && query.isFetchedAfterMount);
  if (known && races.data && jobs.data)
    decided.current ??= landing(
      races.data.pages.flatMap(({ items }) => items),
      findRaces(jobs.data.items),
    );
  const error = races.error ?? jobs.error;
  const there = decided.current;
  if (there?.page === "race") return <Navigate to="/races/$raceId" params={{ raceId: there.id }} replace />;
  if (there?.page === "side by side") return <Navigate to="/race" replace />;
  if (there) return <StartPage />;
  if (!error) return <Skeleton height={300} />;
  return <Problem error={error} onRetry={() => void Promise.all([races.refetch(), jobs.refetch()])} />;
}
