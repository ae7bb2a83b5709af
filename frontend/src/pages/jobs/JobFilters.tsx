import { Button, Group, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { modelsQuery, strategiesQuery } from "../../api/queries";
import type { JobState } from "../../api/types";
import { STATES } from "../../lib/jobState";
import type { JobsSearch } from "../../lib/search";

/** The list's filters; they live in the address. */
export function JobFilters({ search }: { search: JobsSearch }) {
  const navigate = useNavigate({ from: "/jobs" });
  const strategies = useQuery(strategiesQuery).data ?? [];
  const models = useQuery(modelsQuery).data ?? [];
  const [text, setText] = useState(search.text ?? "");
  useEffect(() => setText(search.text ?? ""), [search.text]);

  const set = (change: JobsSearch) =>
    void navigate({ search: (previous) => ({ ...previous, ...change }), replace: true, resetScroll: false });
  const setLater = useDebouncedCallback((value: string) => set({ text: value || undefined }), 250);

  return (
    <Group gap="xs" mb="sm">
      <TextInput
        aria-label="Search by name"
        placeholder="Search by name"
        leftSection={<IconSearch size={16} />}
        value={text}
        data-testid="filter-text"
        style={{ flex: "1 1 180px" }}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setLater(event.currentTarget.value);
        }}
      />
      <Select
        aria-label="State"
        placeholder="Any state"
        clearable
        data={Object.entries(STATES).map(([value, shown]) => ({ value, label: shown.label }))}
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
        data={models.map((entry) => entry.name)}
        value={search.model ?? null}
        data-testid="filter-model"
        style={{ flex: "1 1 140px" }}
        onChange={(model) => set({ model: model ?? undefined })}
      />
      {Object.keys(search).length > 0 && (
        <Button variant="subtle" color="gray" onClick={() => void navigate({ search: {}, replace: true })}>
          Clear
        </Button>
      )}
    </Group>
  );
}
