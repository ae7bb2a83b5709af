import { ActionIcon, Badge, Group, Paper, Table, Text, Title } from "@mantine/core";
import { IconFlag } from "@tabler/icons-react";
import type { Job, Summary } from "../../api/types";
import { OrWhyNot } from "../../components/OrWhyNot";
import { TakeTable } from "../../components/TakeTable";
import { Tip } from "../../components/Tip";
import { compareCsv } from "../../lib/compareCsv";
import { caveats, compareRows } from "../../lib/compareRows";
import { INTERVAL_WORDS, SPEED_WORDS } from "../../lib/speedWords";

// Two jobs fit on a phone.
const LABEL_PX = 92;
const COLUMN_PX = 116;

interface Props {
  /** The first one is the baseline. */
  jobs: Job[];
  /** Against the first job; undefined while on their way. */
  summaries: (Summary | undefined)[];
  onJobs: (ids: string[]) => void;
}

/** The jobs' figures, as `trainyard compare` prints them. */
export function NumbersTable({ jobs, summaries, onJobs }: Props) {
  const [baseline] = jobs;
  const first = (id: string) => onJobs([id, ...jobs.map((job) => job.id).filter((other) => other !== id)]);
  return (
    <Paper p="sm">
      <Group justify="space-between" mb={4}>
        <Title order={2} fz="md">
          Numbers
        </Title>
        <Text size="xs" c="dimmed">
          {SPEED_WORDS}
          {jobs.length > 1 && `; speed-up is over ${baseline?.name}, ${INTERVAL_WORDS}`}
        </Text>
      </Group>
      <TakeTable file="compare numbers" rows={() => compareCsv(jobs, summaries)}>
        <Table.ScrollContainer minWidth={LABEL_PX + COLUMN_PX * jobs.length} type="native">
          <Table layout="fixed" fz="sm" verticalSpacing={4} horizontalSpacing={8} data-testid="numbers">
            <Table.Thead>
              <Table.Tr>
                <Table.Th w={{ base: LABEL_PX, sm: 170 }} />
                {jobs.map((job, index) => (
                  <Table.Th key={job.id} style={{ overflowWrap: "anywhere" }}>
                    {job.name}
                    {jobs.length > 1 &&
                      (index === 0 ? (
                        <Badge ml={6} color="gray">
                          baseline
                        </Badge>
                      ) : (
                        <Tip label="Compare the others with this one">
                          <ActionIcon
                            ml={4}
                            size="xs"
                            variant="subtle"
                            color="gray"
                            aria-label={`Make ${job.name} the baseline`}
                            data-testid={`make-baseline-${job.id}`}
                            onClick={() => first(job.id)}
                          >
                            <IconFlag size={13} />
                          </ActionIcon>
                        </Tip>
                      ))}
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {compareRows(jobs, summaries).map(({ label, values, none = "", noneOfFirst = none }) => (
                <Table.Tr key={label} data-testid={`number-${label}`}>
                  <Table.Th scope="row" fw={500} c="dimmed">
                    {label}
                  </Table.Th>
                  {jobs.map((job, index) => (
                    <Table.Td
                      key={job.id}
                      fw={label === "speed-up" ? 700 : undefined}
                      style={{ overflowWrap: "anywhere", fontVariantNumeric: "tabular-nums" }}
                    >
                      <OrWhyNot why={index === 0 ? noneOfFirst : none}>{values[index]}</OrWhyNot>
                    </Table.Td>
                  ))}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </TakeTable>
      {caveats(jobs, summaries).map(({ id, name, text }) => (
        <Text key={id} size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }} data-testid="caveat">
          <b>{name}</b>: {text}
        </Text>
      ))}
    </Paper>
  );
}
