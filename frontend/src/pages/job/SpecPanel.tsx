import {
  Button,
  Code,
  CopyButton,
  Group,
  Paper,
  SegmentedControl,
  Skeleton,
  Stack,
  Text,
  Title,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { type SpecForm, specificationQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { Problem } from "../../components/Problem";

const FORMS = [
  { value: "yaml", label: "YAML" },
  { value: "json", label: "JSON" },
];
const PARTS = [
  { value: "set", label: "Only what was set" },
  { value: "all", label: "Everything" },
];

/** What was submitted, as a file that can be submitted again, and the plan that its strategy made of it. */
export function SpecPanel({ job }: { job: Job }) {
  return (
    <Stack gap="md">
      <Specification job={job} />
      <Written
        title="Plan"
        note={`Made by ${job.plan.strategy}`}
        text={JSON.stringify(job.plan, null, 2)}
        testId="raw-plan"
      />
    </Stack>
  );
}

function Specification({ job }: { job: Job }) {
  const [form, setForm] = useState<SpecForm>("yaml");
  const [part, setPart] = useState("set");
  const query = useQuery(specificationQuery(job.id, form, part === "all"));
  if (query.error) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Skeleton height={300} />;
  return (
    <Written
      title="Specification"
      note={
        part === "all"
          ? `Every field of job ${job.id}, also those that have their defaults`
          : `What was set of job ${job.id}; everything else has its default`
      }
      text={query.data}
      testId="spec"
    >
      <SegmentedControl
        size="xs"
        aria-label="Which fields"
        data={PARTS}
        value={part}
        onChange={setPart}
        data-testid="spec-part"
      />
      <SegmentedControl
        size="xs"
        aria-label="How it is written"
        data={FORMS}
        value={form}
        onChange={(value) => setForm(value as SpecForm)}
        data-testid="spec-form"
      />
    </Written>
  );
}

interface WrittenProps {
  title: string;
  note: string;
  text: string;
  testId: string;
  /** How it is shown. */
  children?: ReactNode;
}

function Written({ title, note, text, testId, children }: WrittenProps) {
  return (
    <Paper p="sm">
      <Group justify="space-between" mb="xs" gap="xs">
        <Title order={2} fz="md">
          {title}
        </Title>
        <Group gap="xs">
          {children}
          <CopyButton value={text}>
            {({ copied, copy }) => (
              <Button size="compact-sm" variant="default" onClick={copy} data-testid={`copy-${testId}`}>
                {copied ? "Copied" : "Copy"}
              </Button>
            )}
          </CopyButton>
        </Group>
      </Group>
      <Text size="xs" c="dimmed" mb="xs">
        {note}
      </Text>
      <Code block mah="70vh" style={{ overflow: "auto" }} tabIndex={0} data-testid={testId}>
        {text}
      </Code>
    </Paper>
  );
}
