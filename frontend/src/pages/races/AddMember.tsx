import { Button, Group, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { strategiesQuery } from "../../api/queries";
import type { RaceView } from "../../api/types";
import { recommendedFirst } from "../../lib/strategies";
import { useJoin } from "./useJoin";

/** Any strategy that does not race yet may join, with its own defaults. */
export function AddMember({ race }: { race: RaceView }) {
  const [strategy, setStrategy] = useState<string | null>(null);
  const strategies = recommendedFirst(useQuery(strategiesQuery).data ?? []);
  const join = useJoin(race);
  const there = new Set((race.spec.members ?? []).map((member) => member.strategy));
  return (
    <Group gap="xs" align="flex-end">
      <Select
        size="xs"
        label="One more strategy"
        description="It runs the rounds that are over without the others, and is not compared in them: Race again compares all."
        placeholder="Choose one"
        searchable
        data={strategies.map(({ name }) => name).filter((name) => !there.has(name))}
        value={strategy}
        onChange={setStrategy}
        data-testid="another-member"
      />
      <Button
        size="xs"
        variant="light"
        disabled={strategy === null}
        loading={join.isPending}
        onClick={() => strategy && join.mutate({ strategy }, { onSuccess: () => setStrategy(null) })}
        data-testid="add-another"
      >
        Let it race
      </Button>
    </Group>
  );
}
