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

/** Goes on to what is worth seeing first. It decides once: whoever reads the start page is not carried away. */
export function HomePage() {
  const races = useInfiniteQuery(racesQuery);
  const jobs = useQuery(recentJobsQuery);
  const decided = useRef<Landing>(undefined);
  if (races.data && jobs.data)
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
