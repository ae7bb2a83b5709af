import { Badge, Group, Input, Radio, SimpleGrid, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { strategiesQuery } from "../../api/queries";
import { errorAt } from "../../form/errors";
import { Misfits } from "../../form/Misfits";
import { type FieldProps, ObjectFields } from "../../form/SchemaField";
import { hasFields, initialValue, isObject, type JsonSchema } from "../../form/schema";
import classes from "./StrategyPicker.module.css";

/** Strategies as cards: what each does and when it loses. Its options follow below. */
export function StrategyPicker({ path, value, errors, onChange }: FieldProps) {
  const strategies = useQuery(strategiesQuery).data ?? [];
  const { name, options } = isObject(value) ? value : { name: "", options: {} };
  const chosen = strategies.find((entry) => entry.name === name);
  const schema = chosen?.options_schema as JsonSchema | undefined;
  const choose = (picked: string) => {
    const found = strategies.find((entry) => entry.name === picked)?.options_schema as JsonSchema | undefined;
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
          {strategies.map((entry) => (
            <Radio.Card
              key={entry.name}
              value={entry.name}
              className={classes.card}
              data-testid={`strategy-${entry.name}`}
              aria-label={entry.name}
            >
              <Group wrap="nowrap" align="flex-start" gap="xs">
                <Radio.Indicator size="xs" mt={3} />
                <div>
                  <Group gap={6}>
                    <Text fw={650} size="sm">
                      {entry.name}
                    </Text>
                    <Badge size="xs" color={entry.proof === "exact" ? "teal" : "yellow"}>
                      {entry.proof}
                    </Badge>
                  </Group>
                  <Text size="xs" mt={2}>
                    {entry.summary}
                  </Text>
                  <Text size="xs" c="dimmed" mt={2}>
                    <b>Loses when</b> {entry.loses_when}
                  </Text>
                </div>
              </Group>
            </Radio.Card>
          ))}
        </SimpleGrid>
      </Radio.Group>
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
