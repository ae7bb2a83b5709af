import { Alert, Group, Select, Text } from "@mantine/core";
import type { Job } from "../../api/types";

interface Props {
  /** In order of their numbers; at least one. */
  attempts: Job["attempts"];
  /** A number; undefined: the latest, whichever that becomes. */
  chosen: number | undefined;
  onChoose: (attempt: number | undefined) => void;
}

/** Which attempt is shown; of an earlier one, how it ended. */
export function AttemptChoice({ attempts, chosen, onChoose }: Props) {
  const latest = attempts.at(-1)?.number;
  const shown = attempts.find(({ number }) => number === (chosen ?? latest));
  return (
    <Group gap="sm" align="center">
      <Select
        size="xs"
        w={190}
        aria-label="Which attempt"
        data={attempts.toReversed().map(({ number }) => ({
          value: String(number),
          label: `Attempt ${number}${number === latest ? ", the latest" : ` of ${attempts.length}`}`,
        }))}
        value={shown ? String(shown.number) : null}
        placeholder={`No attempt ${chosen}`}
        allowDeselect={false}
        onChange={(value) => onChoose(Number(value) === latest ? undefined : Number(value))}
        data-testid="attempt"
      />
      {shown && shown.resumed_step !== null && (
        <Text size="sm" data-testid="resumed-from">
          It goes on from the checkpoint of step {shown.resumed_step}: earlier steps are in earlier attempts.
        </Text>
      )}
      {shown && shown.number !== latest && (
        <Alert color="yellow" py={6} px="sm" data-testid="attempt-earlier">
          <Text size="sm" style={{ overflowWrap: "anywhere" }}>
            Figures, events and logs of attempt {shown.number}, which ended:{" "}
            {shown.message ?? shown.reason ?? shown.state}
          </Text>
        </Alert>
      )}
    </Group>
  );
}
