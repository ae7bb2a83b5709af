import { Tabs, Text, Title } from "@mantine/core";
import type { JobSpec, PlanView } from "../../api/types";
import { LargestBatch } from "../../components/LargestBatch";
import { WhereCodecsPay } from "../../components/WhereCodecsPay";
import { WorkerMemory } from "../../components/WorkerMemory";
import { askable } from "../../lib/askable";

interface Props {
  plan: PlanView;
  spec: JobSpec;
}

/** What one may ask about the job before it runs, one question at a time; an answer stays while another is looked at. */
export function BeforeLaunch({ plan, spec }: Props) {
  const asked = askable(plan, spec);
  const first = asked[0];
  if (first === undefined) return null;
  const panels = {
    memory: <WorkerMemory spec={spec} file={plan.strategy} />,
    batch: <LargestBatch spec={spec} file={plan.strategy} />,
    codecs: <WhereCodecsPay spec={spec} file={plan.strategy} />,
  };
  return (
    <>
      <Title order={3} fz="sm" mt="md">
        Before you launch
      </Title>
      <Text size="xs" c="dimmed">
        Answers come from the plan: nothing is trained for them.
      </Text>
      <Tabs defaultValue={first.name} data-testid="before-launch">
        <Tabs.List>
          {asked.map(({ name, title }) => (
            <Tabs.Tab key={name} value={name} px="xs" data-testid={`before-${name}`}>
              {title}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {asked.map(({ name }) => (
          <Tabs.Panel key={name} value={name}>
            {panels[name]}
          </Tabs.Panel>
        ))}
      </Tabs>
    </>
  );
}
