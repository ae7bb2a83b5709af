import { Button, Group, Modal, Stack, TagsInput, Text, Textarea } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconTag } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useWho } from "../../access/useWho";
import { client, unwrap } from "../../api/client";
import { jobGroupsQuery, jobQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { JobTags } from "../../components/JobTags";
import { Problem } from "../../components/Problem";
import { mayChange } from "../../lib/rights";

// The service keeps no more.
const MOST_TAGS = 20;
const NOTE_LENGTH = 4_000;

/** A job's tags and note, and, for who may, a button that changes them. */
export function JobLabels({ job }: { job: Job }) {
  const [open, { open: edit, close }] = useDisclosure(false);
  const may = mayChange(useWho(), job.owner);
  return (
    <Group gap={6}>
      <JobTags job={{ tags: job.tags, note: null }} />
      {may && (
        <Button
          variant="subtle"
          color="gray"
          size="compact-xs"
          leftSection={<IconTag size={13} />}
          data-testid="edit-labels"
          onClick={edit}
        >
          Tags and note
        </Button>
      )}
      {job.note && (
        <Text
          size="sm"
          w="100%"
          style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}
          data-testid="note"
        >
          {job.note}
        </Text>
      )}
      <Modal opened={open} onClose={close} title={`Tags and note of ${job.name}`} centered>
        <Form job={job} onDone={close} />
      </Modal>
    </Group>
  );
}

function Form({ job, onDone }: { job: Job; onDone: () => void }) {
  const queries = useQueryClient();
  const [tags, setTags] = useState(job.tags);
  const [note, setNote] = useState(job.note ?? "");
  const known = useQuery(jobGroupsQuery("tag", {})).data?.items ?? [];
  const keep = useMutation({
    mutationFn: () =>
      unwrap(
        client.PATCH("/api/v1/jobs/{job_id}", {
          params: { path: { job_id: job.id } },
          body: { tags, note: note || null },
        }),
      ),
    onSuccess: (updated) => {
      queries.setQueryData(jobQuery(job.id).queryKey, updated);
      onDone();
    },
  });
  return (
    <Stack gap="sm">
      <TagsInput
        label="Tags"
        description="Enter or a comma ends one."
        data={known.flatMap(({ value }) => value ?? [])}
        value={tags}
        onChange={setTags}
        maxTags={MOST_TAGS}
        acceptValueOnBlur
        data-testid="field-tags"
      />
      <Textarea
        label="Note"
        autosize
        minRows={3}
        maxRows={12}
        maxLength={NOTE_LENGTH}
        value={note}
        onChange={(event) => setNote(event.currentTarget.value)}
        data-testid="field-note"
      />
      {keep.error && <Problem error={keep.error} />}
      <Group justify="flex-end" gap="xs">
        <Button variant="default" onClick={onDone}>
          Cancel
        </Button>
        <Button loading={keep.isPending} onClick={() => keep.mutate()} data-testid="keep-labels">
          Save
        </Button>
      </Group>
    </Stack>
  );
}
