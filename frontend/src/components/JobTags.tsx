import { Box } from "@mantine/core";
import { IconNote } from "@tabler/icons-react";
import type { JobSummary } from "../api/types";
import { LinkBadge } from "./links";
import { Tip } from "./Tip";

/** What people say of a job: its tags, each a link to the jobs that have it, and that there is a note. */
export function JobTags({ job }: { job: Pick<JobSummary, "tags" | "note"> }) {
  return (
    <>
      {job.tags.map((tag) => (
        <LinkBadge
          key={tag}
          to="/jobs"
          search={{ tag }}
          variant="outline"
          color="gray"
          size="sm"
          tt="none"
          maw={160}
          data-testid={`tag-${tag}`}
        >
          {tag}
        </LinkBadge>
      ))}
      {job.note && (
        <Tip label={job.note} multiline maw={360} style={{ whiteSpace: "pre-wrap" }}>
          <Box
            component="span"
            tabIndex={0}
            role="img"
            aria-label={`Note: ${job.note}`}
            c="dimmed"
            display="inline-flex"
          >
            <IconNote size={15} />
          </Box>
        </Tip>
      )}
    </>
  );
}
