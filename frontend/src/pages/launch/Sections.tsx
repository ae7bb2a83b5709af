import { Accordion, Group, Text } from "@mantine/core";
import { type ReactNode, useEffect } from "react";
import { Described } from "../../form/SchemaField";
import { humanize } from "../../lib/format";
import { sectionSummary } from "../../lib/sectionSummary";

export interface Section {
  name: string;
  description: string | undefined;
  /** Whether something in it was refused: then it is open. */
  wrong: boolean;
  content: ReactNode;
}

interface Props {
  sections: Section[];
  spec: Record<string, unknown>;
  opened: string[];
  onOpened: (names: string[]) => void;
}

/** The form's sections: closed until somebody wants one, with what each holds in a few words. */
export function Sections({ sections, spec, opened, onOpened }: Props) {
  const wrong = sections.filter((section) => section.wrong).map(({ name }) => name);
  const missing = wrong.filter((name) => !opened.includes(name));
  // It stays open while what is wrong is corrected.
  useEffect(() => {
    if (missing.length > 0) onOpened([...opened, ...missing]);
  });
  return (
    <Accordion
      multiple
      variant="separated"
      value={[...opened, ...missing]}
      onChange={onOpened}
      transitionDuration={0}
    >
      {sections.map(({ name, description, wrong: refused, content }) => (
        <Accordion.Item key={name} value={name} data-testid={`section-${name}`}>
          <Accordion.Control data-testid={`open-${name}`}>
            <Group gap="xs">
              <Text fw={650}>{humanize(name)}</Text>
              <Text size="xs" c={refused ? "red" : "dimmed"}>
                {refused
                  ? "needs a correction"
                  : sectionSummary(name, spec) || <Described text={description ?? ""} />}
              </Text>
            </Group>
          </Accordion.Control>
          <Accordion.Panel>{content}</Accordion.Panel>
        </Accordion.Item>
      ))}
    </Accordion>
  );
}
