import { Button, Group, Pill, Select, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { jobGroupsQuery, modelsQuery, strategiesQuery } from "../../api/queries";
import type { JobState } from "../../api/types";
import { useTyped } from "../../components/useTyped";
import { JOB_COLUMNS } from "../../lib/jobColumns";
import { JOB_STATES, STATES } from "../../lib/jobState";
import { clearedJobs, GROUPS, type GroupBy, type JobsSearch } from "../../lib/search";
import { SavedFilters } from "./SavedFilters";

const TYPED_MS = 250;

/** The list's filters; they live in the address. */
export function JobFilters({ search }: { search: JobsSearch }) {
  const navigate = useNavigate({ from: "/jobs" });
  const strategies = useQuery(strategiesQuery).data ?? [];
  const models = useQuery(modelsQuery).data ?? [];
  const own = useQuery(jobGroupsQuery("model", {})).data?.items ?? [];
  const tags = useQuery(jobGroupsQuery("tag", {})).data?.items ?? [];

  const { selected, ...view } = search;
  const set = (change: JobsSearch) =>
    void navigate({ search: (previous) => ({ ...previous, ...change }), replace: true, resetScroll: false });
  const { typed, type } = useTyped(search.text ?? "", TYPED_MS, (text) => set({ text: text || undefined }));

  return (
    <Group gap="xs" mb="sm">
      <TextInput
        aria-label="Search by name"
        placeholder="Search by name"
        leftSection={<IconSearch size={16} />}
        value={typed}
        data-testid="filter-text"
        style={{ flex: "1 1 180px" }}
        onChange={(event) => type(event.currentTarget.value)}
      />
      <Select
        aria-label="State"
        placeholder="Any state"
        clearable
        data={JOB_STATES.map((state) => ({ value: state, label: STATES[state].label }))}
        value={search.state ?? null}
        data-testid="filter-state"
        style={{ flex: "1 1 120px" }}
        onChange={(state) => set({ state: (state as JobState | null) ?? undefined })}
      />
      <Select
        aria-label="Strategy"
        placeholder="Any strategy"
        clearable
        searchable
        data={strategies.map((entry) => entry.name)}
        value={search.strategy ?? null}
        data-testid="filter-strategy"
        style={{ flex: "1 1 160px" }}
        onChange={(strategy) => set({ strategy: strategy ?? undefined })}
      />
      <Select
        aria-label="Model"
        placeholder="Any model"
        clearable
        searchable
        data={[
          ...new Set([...models.map((entry) => entry.name), ...own.flatMap(({ value }) => value ?? [])]),
        ]}
        value={search.model ?? null}
        data-testid="filter-model"
        style={{ flex: "1 1 140px" }}
        onChange={(model) => set({ model: model ?? undefined })}
      />
      <Select
        aria-label="Tag"
        placeholder="Any tag"
        clearable
        searchable
        data={tags.flatMap(({ value }) => value ?? [])}
        value={search.tag ?? null}
        data-testid="filter-tag"
        style={{ flex: "1 1 110px" }}
        onChange={(tag) => set({ tag: tag ?? undefined })}
      />
      <Select
        aria-label="Group by"
        placeholder="No groups"
        clearable
        data={GROUPS.map((value) => ({ value, label: `By ${value}` }))}
        value={search.group ?? null}
        data-testid="group-by"
        style={{ flex: "1 1 110px" }}
        onChange={(group) =>
          set({ group: (group as GroupBy | null) ?? undefined, open: undefined, selected: undefined })
        }
      />
      <Select
        aria-label="Sort by"
        placeholder="Newest first"
        clearable
        hiddenFrom="sm"
        data={JOB_COLUMNS.flatMap(({ label, sort }) => (sort ? { value: sort, label } : []))}
        value={search.sort ?? null}
        style={{ flex: "1 1 110px" }}
        onChange={(sort) => set({ sort: sort ?? undefined })}
      />
      {search.owner && <Chip text={`by ${search.owner}`} onRemove={() => set({ owner: undefined })} />}
      {search.race && <Chip text="of one race" onRemove={() => set({ race: undefined })} />}
      {search.raced !== undefined && (
        <Chip text={search.raced ? "of a race" : "of no race"} onRemove={() => set({ raced: undefined })} />
      )}
      {search.tagged !== undefined && (
        <Chip
          text={search.tagged ? "with a tag" : "without a tag"}
          onRemove={() => set({ tagged: undefined })}
        />
      )}
      <SavedFilters search={search} />
      {Object.values(view).some((value) => value !== undefined) && (
        <Button
          variant="subtle"
          color="gray"
          onClick={() => void navigate({ search: clearedJobs(search), replace: true })}
        >
          Clear
        </Button>
      )}
    </Group>
  );
}

/** A filter that has no field of its own. */
function Chip({ text, onRemove }: { text: string; onRemove: () => void }) {
  return (
    <Pill withRemoveButton onRemove={onRemove} removeButtonProps={{ "aria-label": `Remove filter: ${text}` }}>
      {text}
    </Pill>
  );
}
