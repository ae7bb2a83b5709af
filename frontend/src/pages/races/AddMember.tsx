import { Button, Group, Select, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiProblem } from "../../api/client";
import { jobSchemaQuery, strategiesQuery } from "../../api/queries";
import type { RaceView } from "../../api/types";
import { MemberFields } from "../../form/MemberFields";
import type { JsonSchema } from "../../form/schema";
import type { Member } from "../../lib/raceForm";
import { recommendedFirst } from "../../lib/strategies";
import { useJoin } from "./useJoin";

/** Any strategy may join, with options of its own: also one that races, with other ones. */
export function AddMember({ race }: { race: RaceView }) {
  const [member, setMember] = useState<Member | null>(null);
  const strategies = recommendedFirst(useQuery(strategiesQuery).data ?? []);
  const job = useQuery({ ...jobSchemaQuery, enabled: member !== null }).data as JsonSchema | undefined;
  const join = useJoin(race);
  const change = (changed: Member | null) => {
    join.reset();
    setMember(changed);
  };
  return (
    <Stack gap="xs">
      <Group gap="xs" align="flex-end">
        <Select
          size="xs"
          label="One more strategy"
          description="It runs the rounds that are over without the others, and is not compared in them: Race again compares all."
          placeholder="Choose one"
          searchable
          data={strategies.map(({ name }) => name)}
          value={member?.strategy ?? null}
          onChange={(strategy) => change(strategy === null ? null : { strategy })}
          data-testid="another-member"
        />
        <Button
          size="xs"
          variant="light"
          disabled={member === null}
          loading={join.isPending}
          onClick={() => member && join.mutate(member, { onSuccess: () => change(null) })}
          data-testid="add-another"
        >
          Let it race
        </Button>
      </Group>
      {member && (
        <MemberFields
          member={member}
          entry={strategies.find(({ name }) => name === member.strategy)}
          job={job}
          path="members.0"
          errors={join.error instanceof ApiProblem ? join.error.errors : []}
          onMember={change}
        />
      )}
    </Stack>
  );
}
