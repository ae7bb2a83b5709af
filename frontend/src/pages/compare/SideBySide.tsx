import { Group, Select, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { figuresQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { JobFigure } from "../../components/JobFigure";

interface Props {
  jobs: Job[];
  /** A figure's name in the catalogue. */
  figure: string | undefined;
  onFigure: (name: string) => void;
}

/** One figure of each job. */
export function SideBySide({ jobs, figure, onFigure }: Props) {
  const figures = useQuery(figuresQuery).data ?? [];
  const name = figure ?? "step-time";
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Title order={2} fz="md">
          Figures side by side
        </Title>
        <Select
          size="xs"
          aria-label="Which figure"
          data-testid="side-figure"
          data={figures.map((entry) => ({ value: entry.name, label: entry.title }))}
          value={name}
          allowDeselect={false}
          onChange={(chosen) => chosen && onFigure(chosen)}
        />
      </Group>
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        {jobs.map((job) => (
          <div key={`${job.id} ${name}`} data-testid={`side-${job.id}`}>
            <Text size="sm" fw={600} mb={4}>
              {job.name}
            </Text>
            <JobFigure jobId={job.id} name={name} />
          </div>
        ))}
      </SimpleGrid>
    </Stack>
  );
}
