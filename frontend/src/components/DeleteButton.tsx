import { Button, Group, Modal, Progress, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { IconTrash } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { ApiProblem, answered, client } from "../api/client";
import { formatPercent } from "../lib/format";

interface Props {
  /** Only jobs that have ended can be deleted. */
  jobs: { id: string; name: string }[];
  disabled?: boolean;
  /** Which are gone, also where others could not be deleted. */
  onDeleted: (ids: string[]) => void;
}

/** Removes jobs with everything that was recorded of them, after asking. */
export function DeleteButton({ jobs, disabled, onDeleted }: Props) {
  const [asking, { open, close }] = useDisclosure(false);
  // The list goes on changing behind the question: those are deleted that it names.
  const [asked, setAsked] = useState(jobs);
  // Jobs, the one that is being deleted as a part.
  const [done, setDone] = useState(0);
  const remove = useMutation({
    mutationFn: async () => {
      const gone: string[] = [];
      try {
        for (const { id } of asked) {
          await deleted(id, (share) => setDone(gone.length + share));
          gone.push(id);
          setDone(gone.length);
        }
      } finally {
        onDeleted(gone);
      }
    },
    onError: (error) => notifications.show({ color: "red", title: "Not deleted", message: error.message }),
    onSettled: close,
  });
  const [first] = asked;
  const several = asked.length > 1;
  return (
    <>
      <Button
        color="red"
        variant="light"
        leftSection={<IconTrash size={16} />}
        disabled={disabled}
        onClick={() => {
          setAsked(jobs);
          setDone(0);
          open();
        }}
        data-testid="delete"
      >
        Delete
      </Button>
      <Modal
        opened={asking}
        onClose={remove.isPending ? () => undefined : close}
        withCloseButton={!remove.isPending}
        title={several ? `Delete ${asked.length} jobs?` : `Delete the job ${first?.name}?`}
        centered
      >
        <Text size="sm" style={{ overflowWrap: "anywhere" }}>
          {asked.map((job) => job.name).join(", ")}
          {several ? "" : ` (id ${first?.id})`}: {several ? "their" : "its"} figures, logs, results and files
          are removed for good. Jobs of which {several ? "one of them" : "it"} is the baseline have none from
          then on.
        </Text>
        {remove.isPending && (several || done > 0) && (
          <>
            <Text size="xs" c="dimmed" mt="sm">
              {several ? `${Math.floor(done)} of ${asked.length} deleted` : `${formatPercent(done)} deleted`}
            </Text>
            <Progress value={(100 * done) / asked.length} mt={4} aria-label="Deleted" />
          </>
        )}
        <Group justify="flex-end" gap="xs" mt="md">
          <Button variant="default" onClick={close} disabled={remove.isPending} data-autofocus>
            {several ? "Keep them" : "Keep it"}
          </Button>
          <Button
            color="red.9"
            loading={remove.isPending}
            onClick={() => remove.mutate()}
            data-testid="delete-confirm"
          >
            {several ? `Delete ${asked.length} jobs` : "Delete the job"}
          </Button>
        </Group>
      </Modal>
    </>
  );
}

/** Delete one, telling which share of it is gone; somebody else may have been faster. */
async function deleted(id: string, tell: (share: number) => void): Promise<void> {
  const params = { path: { job_id: id } };
  let gone = 0;
  try {
    for (;;) {
      const { data } = await answered(client.DELETE("/api/v1/jobs/{job_id}", { params }));
      if (!data) return;
      gone += data.rows_deleted;
      tell(gone / (gone + data.rows_left));
    }
  } catch (error) {
    if (!(error instanceof ApiProblem && error.status === 404)) throw error;
  }
}
