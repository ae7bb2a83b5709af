import { Button, Group, Input, Radio, SimpleGrid, Stack, Text } from "@mantine/core";
import { errorAt } from "../../form/errors";
import { Misfits } from "../../form/Misfits";
import { type FieldProps, ObjectFields } from "../../form/SchemaField";
import { hasFields, initialValue, isObject, type JsonSchema } from "../../form/schema";
import classes from "./StrategyPicker.module.css";
import { StrategyText } from "./StrategyText";
import { useShownStrategies } from "./useShownStrategies";

/** Strategies as cards, the recommended ones first. The chosen one's options follow below. */
export function StrategyPicker({ path, value, errors, onChange }: FieldProps) {
  const { name, options } = isObject(value) ? value : { name: "", options: {} };
  const { shown, hidden, showAll } = useShownStrategies([String(name)]);
  const chosen = shown.find((entry) => entry.name === name);
  const schema = chosen?.options_schema as JsonSchema | undefined;
  const choose = (picked: string) => {
    const found = shown.find((entry) => entry.name === picked)?.options_schema as JsonSchema | undefined;
    onChange({ name: picked, options: found ? initialValue(found, found) : {} });
  };
  return (
    <Stack gap="sm">
      <Misfits path={path} value={value} known={["name", "options"]} errors={errors} onChange={onChange} />
      <Radio.Group
        value={String(name ?? "")}
        onChange={choose}
        error={errorAt(errors, `${path}.name`)}
        aria-label="Strategy"
        data-testid={`field-${path}.name`}
      >
        <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="xs">
          {shown.map((entry) => (
            <Radio.Card
              key={entry.name}
              value={entry.name}
              className={classes.card}
              data-testid={`strategy-${entry.name}`}
              aria-label={entry.name}
            >
              <Group wrap="nowrap" align="flex-start" gap="xs">
                <Radio.Indicator size="xs" mt={3} />
                <StrategyText entry={entry} />
              </Group>
            </Radio.Card>
          ))}
        </SimpleGrid>
      </Radio.Group>
      <MoreStrategies hidden={hidden} onShow={showAll} />
      {chosen && (
        <Text size="xs" c="dimmed">
          After {chosen.source}.
        </Text>
      )}
      {schema && hasFields(schema, options) && (
        <Input.Wrapper label={`Options of ${chosen?.name}`}>
          <ObjectFields
            schema={schema}
            root={schema}
            path={`${path}.options`}
            value={options}
            errors={errors}
            onChange={(changed) => onChange({ name, options: changed })}
          />
        </Input.Wrapper>
      )}
    </Stack>
  );
}

/** Shows the strategies that are not recommended. */
export function MoreStrategies({ hidden, onShow }: { hidden: number; onShow: () => void }) {
  if (hidden === 0) return null;
  return (
    <Button
      size="compact-sm"
      variant="subtle"
      style={{ alignSelf: "flex-start" }}
      onClick={onShow}
      data-testid="more-strategies"
    >
      Show {hidden} more
    </Button>
  );
}
