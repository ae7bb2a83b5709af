import { Badge, Button, Group, Loader, Paper, Stack, Text, Title } from "@mantine/core";
import { wireBytes } from "../../lib/planRow";
import type { RaceForm } from "../../lib/raceForm";
import { byReason } from "../../lib/refusals";
import { HeldCode } from "./HeldCode";
import type { Checked, useRacePreview } from "./useRacePreview";

interface Props {
  form: RaceForm;
  preview: ReturnType<typeof useRacePreview>;
}

/** Before anything is started: who of those that are chosen can run, and why not. */
export function RacePreview({ form, preview }: Props) {
  const { checked } = preview;
  const refused = checked.filter(({ error }) => error);
  return (
    <Paper p="sm" data-testid="race-preview">
      <Group justify="space-between" wrap="nowrap">
        <Title order={2} fz="md">
          Who can run{form.rates.length > 0 && ` at ${form.rates.join(", ")}`}
        </Title>
        {preview.again && (
          <Button
            size="compact-sm"
            variant="light"
            loading={preview.checking}
            onClick={preview.again}
            data-testid="check-again"
          >
            Check again
          </Button>
        )}
      </Group>
      {preview.held ? (
        <HeldCode action="Check" onRelease={preview.preview} />
      ) : (
        <Stack gap="xs" mt="xs">
          {checked
            .filter(({ error }) => !error)
            .map((one) => (
              <Member key={one.place} {...one} />
            ))}
          {byReason(refused).map((group) => (
            <Refused key={group[0]?.place} members={group} />
          ))}
          {refused.length > 0 && (
            <Text size="xs" c="dimmed" data-testid="what-then">
              {refused.length < checked.length
                ? "The race lists who cannot run with the reason, and lets the others run."
                : "Where nobody can run, no race starts."}
            </Text>
          )}
          {preview.takes && (
            <Text size="xs" data-testid="race-takes">
              {preview.takes}
            </Text>
          )}
          {checked.length === 0 && <Text size="sm">Nobody races yet. Choose strategies.</Text>}
        </Stack>
      )}
    </Paper>
  );
}

function Member({ strategy, name, plan, not }: Checked) {
  return (
    <div data-testid={`can-${strategy}`} data-state={plan ? "runs" : "asked"}>
      <Group gap="xs">
        <Text size="sm" fw={600}>
          {name}
        </Text>
        {plan ? (
          <Badge color="teal">{not.length > 0 ? "can run at other rates" : "can run"}</Badge>
        ) : (
          <Group gap={6}>
            <Loader size={12} />
            <Text size="xs" c="dimmed">
              planning …
            </Text>
          </Group>
        )}
      </Group>
      {plan && (
        <Text size="xs" c="dimmed">
          {plan.wire_bytes_per_step === null
            ? "PyTorch's own collectives decide what travels."
            : `${wireBytes(plan.wire_bytes_per_step, plan.wire_exact)} on the wire per step, of all workers and servers together, in ${plan.units} ${plan.units === 1 ? "unit" : "units"}.`}
        </Text>
      )}
      {plan &&
        not.map(({ rate, error }) => (
          <Text key={rate} size="xs" style={{ overflowWrap: "anywhere" }} data-testid="not-at">
            Cannot run at {rate}: {error.message.replace(/\.?$/, ".")}
          </Text>
        ))}
    </div>
  );
}

/** Members that are refused for one reason, which is said once. */
function Refused({ members }: { members: Checked[] }) {
  return (
    <div data-testid="refused">
      <Group gap="xs">
        {members.map(({ place, strategy, name }) => (
          <Text key={place} size="sm" fw={600} data-testid={`can-${strategy}`} data-state="refused">
            {name}
          </Text>
        ))}
        <Badge color="red">cannot run</Badge>
      </Group>
      <Text size="xs" style={{ overflowWrap: "anywhere" }}>
        {members[0]?.error?.message.replace(/\.?$/, ".")}
      </Text>
    </div>
  );
}
