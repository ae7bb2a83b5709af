import { Skeleton, Stack, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { jobQuery } from "../../api/queries";
import { NotShown } from "../../components/NotShown";
import { Problem } from "../../components/Problem";
import { usePageTitle } from "../../components/usePageTitle";
import { formatPercent } from "../../lib/format";
import { isLive, progress, STATES } from "../../lib/jobState";
import { type JobTab, tabsOf } from "../../lib/search";
import { AttemptChoice } from "./AttemptChoice";
import { AttemptsPanel } from "./AttemptsPanel";
import { EventsPanel } from "./EventsPanel";
import { JobHeader } from "./JobHeader";
import { LinksPanel } from "./LinksPanel";
import { LogsPanel } from "./LogsPanel";
import { OverviewPanel } from "./OverviewPanel";
import { PlanPanel } from "./PlanPanel";
import { SpecPanel } from "./SpecPanel";
import { StalenessPanel } from "./StalenessPanel";
import { TimelinePanel } from "./TimelinePanel";

const route = getRouteApi("/jobs/$jobId");

const LABELS: Record<JobTab, string> = {
  overview: "Overview",
  timeline: "Timeline",
  links: "Links",
  staleness: "Staleness",
  plan: "Plan",
  attempts: "Attempts",
  events: "Events",
  logs: "Logs",
  spec: "Specification",
};

/** Everything about one job. */
export function JobPage() {
  const { jobId } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery(jobQuery(jobId));
  const job = query.data;
  const share = job && isLive(job.state) ? progress(job) : null;
  usePageTitle(
    job ? `${share === null ? STATES[job.state].label : `● ${formatPercent(share)}`} · ${job.name}` : "Job",
  );

  const shown = tabsOf(job?.plan ?? { drifts: false });
  const tab = shown.find((name) => name === search.tab) ?? "overview"; // not every job has all of them
  const tabs = useRef<HTMLDivElement>(null);
  const isThere = job !== undefined;
  useEffect(() => {
    if (isThere) showChosen(tabs.current, tab);
  }, [isThere, tab]);

  if (query.error && !job)
    return <NotShown what="job" error={query.error} onRetry={() => void query.refetch()} />;
  if (!job) return <Skeleton height={400} />;
  return (
    <Stack gap="md" key={jobId}>
      <JobHeader job={job} attempt={search.attempt} />
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      {job.attempts.length > 1 && (
        <AttemptChoice
          attempts={job.attempts}
          chosen={search.attempt}
          onChoose={(attempt) =>
            // Another attempt has a clock, steps and waits of its own.
            navigate({
              search: ({ tab: kept, baseline, layer, kinds, party }) => ({
                tab: kept,
                baseline,
                layer,
                kinds,
                party,
                attempt,
              }),
              resetScroll: false,
            })
          }
        />
      )}
      <Tabs
        value={tab}
        keepMounted={false}
        onChange={(value) =>
          // What is selected (attempt, step, time, layer) stays: it means the same in every view.
          navigate({
            search: ({ party: _, why: __, kinds: ___, find: ____, ...kept }) => ({
              ...kept,
              tab: (value as JobTab) ?? undefined,
            }),
            resetScroll: false,
          })
        }
      >
        <Tabs.List ref={tabs} style={{ flexWrap: "nowrap", overflowX: "auto", overflowY: "hidden" }}>
          {shown.map((name) => (
            <Tabs.Tab key={name} value={name} data-testid={`tab-${name}`}>
              {LABELS[name]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="overview" pt="md">
          <OverviewPanel
            key={search.attempt} // a zoom is of one attempt's steps
            job={job}
            attempt={search.attempt}
            baseline={search.baseline}
            zoom={search.zoom}
            onZoom={(zoom) =>
              navigate({ search: (previous) => ({ ...previous, zoom }), replace: true, resetScroll: false })
            }
            onBaseline={(baseline) =>
              navigate({
                search: (previous) => ({ ...previous, baseline }),
                replace: true,
                resetScroll: false,
              })
            }
          />
        </Tabs.Panel>
        <Tabs.Panel value="timeline" pt="md">
          <TimelinePanel job={job} search={search} />
        </Tabs.Panel>
        <Tabs.Panel value="links" pt="md">
          <LinksPanel job={job} search={search} />
        </Tabs.Panel>
        <Tabs.Panel value="staleness" pt="md">
          <StalenessPanel
            key={search.attempt}
            job={job}
            attempt={search.attempt}
            zoom={search.zoom}
            onZoom={(zoom) =>
              navigate({ search: (previous) => ({ ...previous, zoom }), replace: true, resetScroll: false })
            }
          />
        </Tabs.Panel>
        <Tabs.Panel value="plan" pt="md">
          <PlanPanel jobName={job.name} plan={job.plan} spec={job.spec} layer={search.layer} />
        </Tabs.Panel>
        <Tabs.Panel value="attempts" pt="md">
          <AttemptsPanel job={job} />
        </Tabs.Panel>
        <Tabs.Panel value="events" pt="md">
          <EventsPanel key={search.attempt ?? job.attempts.length} job={job} search={search} />
        </Tabs.Panel>
        <Tabs.Panel value="logs" pt="md">
          <LogsPanel
            job={job}
            party={search.party}
            find={search.find ?? ""}
            onChange={(change) =>
              navigate({
                search: (previous) => ({ ...previous, ...change }),
                replace: true,
                resetScroll: false,
              })
            }
            attempt={search.attempt}
          />
        </Tabs.Panel>
        <Tabs.Panel value="spec" pt="md">
          <SpecPanel job={job} />
        </Tabs.Panel>
      </Tabs>
    </Stack>
  );
}

/** On a phone not all tabs fit beside one another: the chosen one is brought into the middle. */
function showChosen(list: HTMLElement | null, tab: JobTab): void {
  const chosen = list?.querySelector(`[data-testid=tab-${tab}]`)?.getBoundingClientRect();
  if (!list || !chosen) return;
  const { left, width } = list.getBoundingClientRect();
  list.scrollLeft += chosen.left - left - (width - chosen.width) / 2;
}
