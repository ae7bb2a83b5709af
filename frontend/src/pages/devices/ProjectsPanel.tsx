import { Button, Group, NumberInput, Paper, Table, Text, TextInput, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useWho } from "../../access/useWho";
import { client, unwrap } from "../../api/client";
import { projectsQuery } from "../../api/shareQueries";
import type { Project } from "../../api/types";
import { NumberCell } from "../../components/NumberCell";
import { Problem } from "../../components/Problem";
import { TakeTable } from "../../components/TakeTable";
import { heldOf, projectRows, usedBy } from "../../lib/projects";
import { ConfirmButton } from "../people/ConfirmButton";
import { useShareChange } from "./useShareChange";

/** Who shares the devices, and how; admins make and change projects. Nothing where there are none. */
export function ProjectsPanel() {
  const { data, error, refetch } = useQuery(projectsQuery);
  const admin = useWho().role === "admin";
  if (error) return <Problem error={error} onRetry={() => void refetch()} />;
  if (!data || (data.length === 0 && !admin)) return null;
  return (
    <Paper p="sm" data-testid="projects">
      <Title order={2} fz="md" mb={4}>
        Projects
      </Title>
      {data.length === 0 ? (
        <Text size="sm" c="dimmed">
          There are none: among jobs of one priority the older one goes first.
        </Text>
      ) : (
        <TakeTable file="projects" rows={() => projectRows(data)}>
          <Table className="ty-table" verticalSpacing={6}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th w="24%">Project</Table.Th>
                <Table.Th>Holds</Table.Th>
                <Table.Th>Has used, of which half counts after a day</Table.Th>
                <Table.Th w={80} className="ty-right">
                  Weight
                </Table.Th>
                <Table.Th w={80} className="ty-right">
                  Waiting
                </Table.Th>
                {admin && <Table.Th w={110} />}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {data.map((project) => (
                <Row key={project.name} project={project} admin={admin} />
              ))}
            </Table.Tbody>
          </Table>
        </TakeTable>
      )}
      {admin && <PutProject />}
    </Paper>
  );
}

function Row({ project, admin }: { project: Project; admin: boolean }) {
  const { name, weight, waiting } = project;
  const remove = useShareChange(
    () => unwrap(client.DELETE("/api/v1/projects/{project}", { params: { path: { project: name } } })),
    "It stays",
  );
  return (
    <Table.Tr data-testid={`project-${name}`}>
      <Table.Td style={{ overflowWrap: "anywhere" }}>{name}</Table.Td>
      <Table.Td data-label="Holds">{heldOf(project)}</Table.Td>
      <Table.Td data-label="Has used">{usedBy(project)}</Table.Td>
      <NumberCell label="Weight">{weight}</NumberCell>
      <NumberCell label="Waiting">{waiting}</NumberCell>
      {admin && (
        <Table.Td>
          <ConfirmButton
            label="Remove"
            about={name}
            title={`Remove ${name}?`}
            keep="Keep it"
            pending={remove.isPending}
            onConfirm={() => remove.mutateAsync(undefined)}
          >
            Nobody can launch jobs of it any more. Its jobs that have ended keep its name.
          </ConfirmButton>
        </Table.Td>
      )}
    </Table.Tr>
  );
}

const LIMITS = [
  ["cuda", "GPUs"],
  ["cpu", "CPU slots"],
  ["rehearsal", "Rehearsals"],
] as const;

/** Makes a project, or gives one another quota and weight. */
function PutProject() {
  const [name, setName] = useState("");
  const [weight, setWeight] = useState<number | string>(1);
  const [limits, setLimits] = useState<Partial<Record<(typeof LIMITS)[number][0], number>>>({});
  const put = useShareChange(
    () =>
      unwrap(
        client.PUT("/api/v1/projects/{project}", {
          params: { path: { project: name.trim() } },
          body: { weight: Number(weight) || 1, ...limits },
        }),
      ),
    "Nothing is changed",
  );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    put.mutate(undefined, { onSuccess: () => setName("") });
  };
  return (
    <form onSubmit={submit}>
      <Group gap="xs" align="flex-end" mt="sm">
        <TextInput
          size="xs"
          label="Make or change"
          placeholder="vision"
          required
          withAsterisk={false}
          maxLength={100}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          data-testid="project-name"
        />
        <NumberInput
          size="xs"
          w={90}
          label="Weight"
          min={0.001}
          max={1000}
          value={weight}
          onChange={setWeight}
        />
        {LIMITS.map(([kind, title]) => (
          <NumberInput
            key={kind}
            size="xs"
            w={135}
            label={`${title} at most`}
            placeholder="no limit"
            min={0}
            allowDecimal={false}
            value={limits[kind] ?? ""}
            onChange={(given) =>
              setLimits({ ...limits, [kind]: typeof given === "number" ? given : undefined })
            }
            data-testid={`project-${kind}`}
          />
        ))}
        <Button type="submit" size="xs" variant="light" loading={put.isPending} data-testid="put-project">
          Save
        </Button>
      </Group>
    </form>
  );
}
