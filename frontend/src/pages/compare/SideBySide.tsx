import { Group, Select, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { figuresQuery } from "../../api/queries";
import type { Job, PlotlyFigure } from "../../api/types";
import { JobFigure } from "../../components/JobFigure";
import { joined, type Scale, scaleOf } from "../../lib/scale";

interface Props {
  jobs: Job[];
  /** A figure's name in the catalogue. */
  figure: string | undefined;
  onFigure: (name: string) => void;
}

/** One figure of each job, all on one scale. */
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
        <Text size="xs" c="dimmed">
          all on one scale
        </Text>
      </Group>
      <OnOneScale key={`${name} ${jobs.map((job) => job.id)}`} jobs={jobs} name={name} />
    </Stack>
  );
}

function OnOneScale({ jobs, name }: { jobs: Job[]; name: string }) {
  const [scales, setScales] = useState<Record<string, Scale>>({});
  // Each figure is drawn again where its scale is another object: only a scale that differs may be one.
  const said = JSON.stringify(joined(Object.values(scales)));
  const shared = useMemo(() => JSON.parse(said) as Scale, [said]);
  const learn = useCallback(
    (id: string, found: Scale) => setScales((known) => ({ ...known, [id]: found })),
    [],
  );
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
      {jobs.map((job) => (
        <OneOfThem key={job.id} job={job} name={name} scale={shared} onScale={learn} />
      ))}
    </SimpleGrid>
  );
}

interface OneProps {
  job: Job;
  name: string;
  scale: Scale;
  /** What its figure would show on its own. */
  onScale: (id: string, scale: Scale) => void;
}

function OneOfThem({ job, name, scale, onScale }: OneProps) {
  const learn = useCallback((figure: PlotlyFigure) => onScale(job.id, scaleOf(figure)), [job.id, onScale]);
  return (
    <div data-testid={`side-${job.id}`}>
      <Text size="sm" fw={600} mb={4}>
        {job.name}
      </Text>
      <JobFigure jobId={job.id} name={name} scale={scale} onFigure={learn} />
    </div>
  );
}
