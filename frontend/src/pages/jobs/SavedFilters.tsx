import { ActionIcon, Button, Group, Popover, Stack, Text, TextInput } from "@mantine/core";
import { IconBookmark, IconX } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import {
  browserMemory,
  LONGEST_NAME,
  readFilters,
  type SavedFilter,
  withFilter,
  withoutFilter,
} from "../../lib/savedFilters";
import { type JobsSearch, jobsSearch } from "../../lib/search";

const load = () => readFilters(browserMemory.load(), jobsSearch);

/** Filters under a name, which this browser remembers: what the list shows now can be saved, and come back. */
export function SavedFilters({ search }: { search: JobsSearch }) {
  const navigate = useNavigate({ from: "/jobs" });
  const [opened, setOpened] = useState(false);
  const [saved, setSaved] = useState(load);
  const [name, setName] = useState("");
  const change = (made: (filters: SavedFilter[]) => SavedFilter[]) => {
    // Another tab may have saved some meanwhile. Where the browser keeps nothing, those of this visit stay.
    const filters = made(browserMemory.load() === null ? saved : load());
    setSaved(filters);
    browserMemory.save(filters);
  };
  const save = () => {
    // What is done with jobs that are chosen now is no view of the list.
    change((filters) => withFilter(filters, name.trim(), { ...search, selected: undefined }));
    setName("");
  };
  const show = (chosen: SavedFilter) => {
    setOpened(false);
    void navigate({ search: chosen.search });
  };
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" withinPortal trapFocus>
      <Popover.Target>
        <Button
          variant="default"
          leftSection={<IconBookmark size={16} />}
          onClick={() => setOpened(!opened)}
          data-testid="saved-filters"
        >
          Saved
        </Button>
      </Popover.Target>
      <Popover.Dropdown w={300}>
        <Stack gap="xs">
          {saved.length === 0 && (
            <Text size="sm" c="dimmed">
              Nothing is saved yet. A name keeps the filters, the order and the groups that the list has now,
              in this browser.
            </Text>
          )}
          {saved.map((filter) => (
            <Group key={filter.name} gap={4} wrap="nowrap" justify="space-between">
              <Button
                size="compact-sm"
                variant="subtle"
                onClick={() => show(filter)}
                style={{ minWidth: 0 }}
                data-testid={`saved-${filter.name}`}
              >
                {filter.name}
              </Button>
              <ActionIcon
                size="sm"
                variant="subtle"
                color="gray"
                aria-label={`Forget ${filter.name}`}
                onClick={() => change((filters) => withoutFilter(filters, filter.name))}
              >
                <IconX size={14} />
              </ActionIcon>
            </Group>
          ))}
          <form
            onSubmit={(event) => {
              event.preventDefault();
              if (name.trim()) save();
            }}
          >
            <Group gap="xs" wrap="nowrap" align="flex-end">
              <TextInput
                label="Save what the list shows now as"
                size="xs"
                maxLength={LONGEST_NAME}
                value={name}
                onChange={(event) => setName(event.currentTarget.value)}
                style={{ flex: 1 }}
                data-testid="save-filter-name"
              />
              <Button type="submit" size="xs" disabled={!name.trim()} data-testid="save-filter">
                Save
              </Button>
            </Group>
          </form>
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}
