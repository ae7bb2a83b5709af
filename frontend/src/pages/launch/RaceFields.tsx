import {
  Checkbox,
  Chip,
  Group,
  Input,
  NumberInput,
  Paper,
  SimpleGrid,
  Stack,
  Switch,
  TextInput,
  Title,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { labQuery } from "../../api/queries";
import { Term } from "../../components/Term";
import { type Errors, errorAt, errorWithin } from "../../form/errors";
import { COMMON_RATES, chosen, MOST_ROUNDS, type RaceForm, roundsOf, USUAL_ROUNDS } from "../../lib/raceForm";
import { ratesProblem, typedRates, withRates } from "../../lib/rates";
import { RaceMembers } from "./RaceMembers";
import { MoreStrategies } from "./StrategyPicker";
import classes from "./StrategyPicker.module.css";
import { StrategyText } from "./StrategyText";
import { useShownStrategies } from "./useShownStrategies";

interface Props {
  form: RaceForm;
  errors: Errors;
  /** The most workers that anybody runs with, and on how many hosts of a lab. */
  workers: number;
  hosts: number | null;
  onForm: (form: RaceForm) => void;
  onHosts: (hosts: number | null) => void;
}

/** Who races, at which rates, how often; and whether the rates are kept by a lab's links. */
export function RaceFields({ form, errors, workers, hosts, onForm, onHosts }: Props) {
  const names = form.members.map(({ strategy }) => strategy);
  const { shown, hidden, showAll } = useShownStrategies(names);
  return (
    <Paper p="sm" data-testid="race-fields">
      <Stack gap="md">
        <Checkbox.Group
          label={<Title order={2} fz="md">{`Who races: ${names.length}`}</Title>}
          value={names}
          error={errorWithin(errors, "members")}
          onChange={(picked) => onForm({ ...form, members: chosen(form.members, picked) })}
        >
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="xs" my="xs">
            {shown.map((entry) => (
              <Checkbox.Card
                key={entry.name}
                value={entry.name}
                className={classes.card}
                aria-label={entry.name}
                data-testid={`member-${entry.name}`}
              >
                <Group wrap="nowrap" align="flex-start" gap="xs">
                  <Checkbox.Indicator size="xs" mt={3} />
                  <StrategyText entry={entry} />
                </Group>
              </Checkbox.Card>
            ))}
          </SimpleGrid>
        </Checkbox.Group>
        <MoreStrategies hidden={hidden} onShow={showAll} />
        <RaceMembers
          members={form.members}
          errors={errors}
          onMembers={(members) => onForm({ ...form, members })}
        />
        <Rates form={form} errors={errors} onForm={onForm} />
        <Hosts workers={workers} hosts={hosts} onHosts={onHosts} />
        <Rounds form={form} errors={errors} onForm={onForm} />
      </Stack>
    </Paper>
  );
}

/** An empty field means the usual number, and stays empty while somebody types another one. */
function Rounds({ form, errors, onForm }: Pick<Props, "form" | "errors" | "onForm">) {
  const [empty, setEmpty] = useState(false);
  return (
    <NumberInput
      label={<Term name="round">Rounds</Term>}
      description="How often everybody runs. Three are the fewest that prove a difference."
      w={220}
      min={1}
      max={MOST_ROUNDS}
      allowDecimal={false}
      placeholder={String(USUAL_ROUNDS)}
      value={empty ? "" : form.rounds}
      error={errorAt(errors, "rounds")}
      onChange={(rounds) => {
        setEmpty(rounds === "");
        onForm({ ...form, rounds: roundsOf(rounds) });
      }}
      data-testid="race-rounds"
    />
  );
}

function Rates({ form, errors, onForm }: Pick<Props, "form" | "errors" | "onForm">) {
  const set = (rates: string[]) => onForm({ ...form, rates });
  return (
    <Input.Wrapper
      label="Rates of the network"
      description="Everybody runs at each. None chosen: at the job's own."
      error={ratesProblem(form.rates) ?? errorWithin(errors, "rates")}
    >
      <Group gap="xs" mt={6} align="flex-start">
        <Chip.Group multiple value={form.rates} onChange={set}>
          {[...new Set([...COMMON_RATES, ...form.rates])].map((rate) => (
            <Chip key={rate} value={rate} size="sm" data-testid={`rate-${rate}`}>
              {rate}
            </Chip>
          ))}
        </Chip.Group>
        <AnotherRate onRates={(rates) => set(withRates(form.rates, rates, COMMON_RATES))} />
      </Group>
    </Input.Wrapper>
  );
}

/** What is no rate stays as it was typed, with the reason, and the race does not start meanwhile. */
function AnotherRate({ onRates }: { onRates: (rates: string[]) => void }) {
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState<string>();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.setCustomValidity(problem ?? ""), [problem]);
  const add = () => {
    const found = typedRates(typed);
    setProblem(found.problem);
    if (found.problem) return;
    setTyped("");
    if (found.rates.length > 0) onRates(found.rates);
  };
  return (
    <TextInput
      ref={field}
      size="xs"
      w={problem ? 300 : 150}
      maw="100%"
      aria-label="Another rate"
      placeholder="another, e.g. 750Mbit"
      value={typed}
      error={problem}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        setProblem(undefined);
      }}
      onBlur={add}
      onKeyDown={(event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        add();
      }}
      data-testid="another-rate"
    />
  );
}

function Hosts({ workers, hosts, onHosts }: Pick<Props, "workers" | "hosts" | "onHosts">) {
  const lab = useQuery(labQuery).data;
  const impossible = lab?.permitted === false;
  return (
    <Switch
      label={
        <>
          {hosts === null || hosts >= workers
            ? "Every worker on a host of its own"
            : `${workers} workers on ${hosts} ${hosts === 1 ? "host" : "hosts"}`}
          , in a <Term name="lab">lab</Term>
        </>
      }
      description={
        impossible
          ? `Not here: ${lab.why_not}. Rates are software-limited, and PyTorch's own ddp cannot race at one.`
          : "The kernel keeps the rate, for every strategy. Without it ddp cannot race at a rate."
      }
      checked={hosts !== null}
      disabled={impossible && hosts === null}
      onChange={(event) => onHosts(event.currentTarget.checked ? workers : null)}
      data-testid="race-lab"
    />
  );
}
