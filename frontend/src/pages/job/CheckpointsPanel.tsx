import { Button, Group, Paper, Table, Text, Title } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { ForMembers } from "../../access/ForMembers";
import { checkpointsQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { LinkButton } from "../../components/links";
import { Problem } from "../../components/Problem";
import { TakeTable } from "../../components/TakeTable";
import { checkpointRows } from "../../lib/attemptRows";
import { formatBytes, NONE } from "../../lib/format";
import { formatQuery } from "../../lib/search";

const CALLED = { model: "Export model", optimizer: "Optimizer" };

/** Of which steps the job's model can be had, each as a file for other programs. */
export function CheckpointsPanel({ job }: { job: Job }) {
  const { data: kept, error } = useQuery(checkpointsQuery(job.id));
  if (error) return <Problem error={error} />;
  if (!kept || (kept.items.length === 0 && kept.end === null)) return null;
  return (
    <Paper p="sm">
      <Title order={2} fz="md" mb="xs">
        Model and checkpoints
      </Title>
      <TakeTable file={`${job.name} checkpoints`} rows={() => checkpointRows(kept)}>
        <Table className="ty-table" fz="sm" verticalSpacing={4} data-testid="checkpoints">
          <Table.Thead>
            <Table.Tr>
              <Table.Th className="ty-right">After step</Table.Th>
              <Table.Th>What</Table.Th>
              <Table.Th>Attempt</Table.Th>
              <Table.Th className="ty-right">Size</Table.Th>
              <Table.Th />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {kept.end && (
              <Table.Tr>
                <Table.Td className="ty-number ty-right" data-label="After step">
                  {kept.end.step}
                </Table.Td>
                <Table.Td data-label="What">what the job has ended with</Table.Td>
                <Table.Td className="ty-number" data-label="Attempt">
                  {kept.end.attempt}
                </Table.Td>
                <Table.Td className="ty-right" data-label="Size">
                  {NONE}
                </Table.Td>
                <Table.Td>
                  <Download job={job} what="model" />
                </Table.Td>
              </Table.Tr>
            )}
            {kept.items.map((one) => (
              <Table.Tr key={one.step}>
                <Table.Td className="ty-number ty-right" data-label="After step">
                  {one.step}
                </Table.Td>
                <Table.Td data-label="What">checkpoint, {new Date(one.written_at).toLocaleString()}</Table.Td>
                <Table.Td className="ty-number" data-label="Attempt">
                  {one.attempt ?? NONE}
                </Table.Td>
                <Table.Td className="ty-number ty-right" data-label="Size">
                  {formatBytes(one.bytes)}
                </Table.Td>
                <Table.Td>
                  <Group gap="xs">
                    <Download job={job} what="model" step={one.step} />
                    <Download job={job} what="optimizer" step={one.step} />
                    <ForMembers>
                      <LinkButton
                        to="/launch"
                        search={{ from: job.id, begin: one.step }}
                        size="compact-sm"
                        variant="default"
                        aria-label={`Begin a job with step ${one.step}`}
                        data-testid={`begin-${one.step}`}
                      >
                        Begin a job with it
                      </LinkButton>
                    </ForMembers>
                  </Group>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </TakeTable>
      <Text size="xs" c="dimmed" mt={4}>
        The model is a safetensors file with the names of its state_dict; the optimizer's state is for
        torch.load. In a terminal: <code>trainyard export {job.id} --out folder</code>
      </Text>
    </Paper>
  );
}

function Download({ job, what, step }: { job: Job; what: "model" | "optimizer"; step?: number }) {
  return (
    <Button
      component="a"
      href={`/api/v1/jobs/${job.id}/export${formatQuery({ what, step })}`}
      download
      size="compact-sm"
      variant="default"
      leftSection={<IconDownload size={14} />}
      aria-label={`${CALLED[what]} ${step === undefined ? "that the job has ended with" : `after step ${step}`}`}
      data-testid={`export-${what}`}
    >
      {CALLED[what]}
    </Button>
  );
}
