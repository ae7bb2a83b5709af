import { Badge, Group, Skeleton, Stack, Text, UnstyledButton } from "@mantine/core";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { jobGroupsQuery } from "../../api/queries";
import type { JobGroup } from "../../api/types";
import { Problem } from "../../components/Problem";
import { type GroupBy, groupFilter, type JobsFilter, NO_GROUP } from "../../lib/search";

interface Props {
  by: GroupBy;
  filter: JobsFilter;
  /** The group that is open, as in the address. */
  open: string | undefined;
  onOpen: (open: string | undefined) => void;
  /** What is in the open group. */
  list: (filter: JobsFilter) => ReactNode;
}

/** Jobs put together by what they have in common; one group is open at a time. */
export function JobGroups({ by, filter, open, onOpen, list }: Props) {
  const query = useQuery(jobGroupsQuery(by, filter));
  if (query.error) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  if (!query.data) return <Skeleton height={240} mt="sm" />;
  const { items, truncated } = query.data;
  return (
    <Stack gap={4} data-testid="job-groups">
      {items.length === 0 && (
        <Text c="dimmed" py="xl" ta="center" data-testid="jobs-empty">
          No job matches these filters.
        </Text>
      )}
      {items.map((group) => {
        const key = group.value ?? NO_GROUP;
        const isOpen = open === key;
        return (
          <div key={key}>
            <Head group={group} isOpen={isOpen} onToggle={() => onOpen(isOpen ? undefined : key)} />
            {isOpen && list({ ...filter, ...groupFilter(by, group.value) })}
          </div>
        );
      })}
      {truncated && (
        <Text size="xs" c="dimmed" ta="center">
          Only the {items.length} groups with the newest jobs are listed. A filter shows others.
        </Text>
      )}
    </Stack>
  );
}

function Head({ group, isOpen, onToggle }: { group: JobGroup; isOpen: boolean; onToggle: () => void }) {
  const Chevron = isOpen ? IconChevronDown : IconChevronRight;
  return (
    <UnstyledButton
      w="100%"
      py={6}
      px="xs"
      aria-expanded={isOpen}
      onClick={onToggle}
      data-testid={`group-${group.name}`}
    >
      <Group gap="xs" wrap="nowrap">
        <Chevron size={16} aria-hidden style={{ flex: "none" }} />
        <Text fw={600} style={{ overflowWrap: "anywhere" }}>
          {group.name}
        </Text>
        <Text size="sm" c="dimmed" className="ty-number">
          {group.jobs} {group.jobs === 1 ? "job" : "jobs"}
        </Text>
        {group.active > 0 && (
          <Badge color="blue" variant="light">
            {group.active} active
          </Badge>
        )}
      </Group>
    </UnstyledButton>
  );
}
