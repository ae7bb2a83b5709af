import { Button, Group, Paper, Stack, Title } from "@mantine/core";
import { IconChartLine, IconFlag, IconPlus } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { ForMembers } from "../../access/ForMembers";
import { useWho } from "../../access/useWho";
import type { JobSummary } from "../../api/types";
import { DeleteButton } from "../../components/DeleteButton";
import { LinkButton } from "../../components/links";
import { usePageTitle } from "../../components/usePageTitle";
import { isAtWork, isLive } from "../../lib/jobState";
import { MOST_COMPARED, MOST_RACERS } from "../../lib/races";
import { may, mayChange } from "../../lib/rights";
import { type JobsFilter, type JobsSearch, jobsFilter } from "../../lib/search";
import { JobFilters } from "./JobFilters";
import { JobGroups } from "./JobGroups";
import { JobList } from "./JobList";

const route = getRouteApi("/jobs");

/** All jobs, live, in any order and in groups. Choose some to see step by step, compare or delete. */
export function JobsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  // A click shows at once; the address follows, so that a look into a job and Back loses nothing.
  const [selected, setSelected] = useState(search.selected ?? []);
  const queries = useQueryClient();
  const who = useWho();
  const [jobs, setJobs] = useState<JobSummary[]>([]);
  // Back, a saved filter and a group that opens or closes say in the address what is selected from then on.
  const inAddress = (search.selected ?? []).join(",");
  const [followed, setFollowed] = useState(inAddress);
  if (followed !== inAddress) {
    setFollowed(inAddress);
    setSelected(search.selected ?? []);
  }
  // What is in another group is not to be seen: nothing is done with it.
  const group = `${search.group} ${search.open}`;
  const [shown, setShown] = useState(group);
  if (shown !== group) {
    setShown(group);
    setJobs([]);
  }
  const running = jobs.filter(isAtWork).length;
  usePageTitle(running > 0 ? `● ${running} running · Jobs` : "Jobs");
  const set = (change: JobsSearch) =>
    void navigate({ search: (previous) => ({ ...previous, ...change }), replace: true, resetScroll: false });

  const select = (ids: string[]) => {
    setSelected(ids);
    set({ selected: ids.length > 0 ? ids : undefined });
  };

  const chosen = jobs.filter((job) => selected.includes(job.id));
  const canDelete =
    chosen.length > 0 &&
    chosen.length === selected.length &&
    chosen.every((job) => !isLive(job.state) && mayChange(who, job.owner));
  const forget = (gone: string[]) => {
    const others = (ids: string[] = []) => ids.filter((id) => !gone.includes(id));
    setSelected(others);
    void navigate({
      search: (previous) => ({ ...previous, selected: others(previous.selected) }),
      replace: true,
      resetScroll: false,
    });
    void queries.invalidateQueries({ queryKey: ["jobs"] });
  };
  const filter = jobsFilter(search);
  const filtered = Object.values(filter).some((value) => value !== undefined);
  // Who may only look is not told to launch.
  const none = may(who.role, "member") ? "No jobs yet. Launch the first one." : "No jobs yet.";
  const list = (which: JobsFilter) => (
    <JobList
      filter={which}
      sort={search.sort}
      onSort={(sort) => set({ sort })}
      selected={selected}
      onSelect={select}
      onJobs={setJobs}
      empty={filtered ? "No job matches these filters." : none}
    />
  );
  return (
    <Stack gap="md">
      <Group justify="space-between" className={selected.length > 0 ? "ty-selection" : undefined}>
        <Title order={1} fz={24}>
          Jobs
        </Title>
        <Group gap="xs">
          {selected.length > 0 && (
            <Button variant="subtle" color="gray" onClick={() => select([])} data-testid="unselect">
              Unselect {selected.length}
            </Button>
          )}
          <Button
            variant="light"
            leftSection={<IconFlag size={16} />}
            disabled={selected.length < 2 || selected.length > MOST_RACERS}
            onClick={() => void navigate({ to: "/race", search: { jobs: selected } })}
            data-testid="race-selected"
          >
            {selected.length < 2
              ? "Select two for step by step"
              : selected.length > MOST_RACERS
                ? `Select at most ${MOST_RACERS} for step by step`
                : `${selected.length} jobs step by step`}
          </Button>
          <Button
            variant="light"
            leftSection={<IconChartLine size={16} />}
            disabled={selected.length < 2 || selected.length > MOST_COMPARED}
            onClick={() => void navigate({ to: "/compare", search: { jobs: selected } })}
            data-testid="compare-selected"
          >
            Compare
          </Button>
          <ForMembers>
            <DeleteButton jobs={chosen} disabled={!canDelete} onDeleted={forget} />
            <LinkButton to="/launch" leftSection={<IconPlus size={16} />}>
              Launch
            </LinkButton>
          </ForMembers>
        </Group>
      </Group>
      <Paper p="sm">
        <JobFilters search={search} />
        {search.group ? (
          <JobGroups
            by={search.group}
            filter={filter}
            open={search.open}
            onOpen={(open) => set({ open, selected: undefined })}
            list={list}
          />
        ) : (
          list(filter)
        )}
      </Paper>
    </Stack>
  );
}
