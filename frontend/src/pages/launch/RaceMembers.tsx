import { Button, Group, Input, Paper, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { jobSchemaQuery, strategiesQuery } from "../../api/queries";
import { type Errors, hasErrorBelow } from "../../form/errors";
import { MemberFields } from "../../form/MemberFields";
import type { JsonSchema } from "../../form/schema";
import { type Member, nameOf, twins } from "../../lib/raceForm";

interface Props {
  members: Member[];
  errors: Errors;
  onMembers: (members: Member[]) => void;
}

/** Those who race, one by one: each may have options of its own, and race a second time with others. */
export function RaceMembers({ members, errors, onMembers }: Props) {
  const [opened, setOpened] = useState<number[]>([]);
  const strategies = useQuery(strategiesQuery).data ?? [];
  const job = useQuery(jobSchemaQuery).data as JsonSchema | undefined;
  const alike = twins(members);
  const isOpen = (place: number) => opened.includes(place) || hasErrorBelow(errors, `members.${place}`);
  const toggle = (place: number) =>
    setOpened(isOpen(place) ? opened.filter((one) => one !== place) : [...opened, place]);
  const again = (place: number) => {
    const member = members[place];
    if (!member) return;
    onMembers([...members, { ...member, name: null }]);
    setOpened([...opened, members.length]); // What should differ is what one does next.
  };
  const remove = (place: number) => {
    onMembers(members.filter((_, at) => at !== place));
    setOpened(opened.filter((at) => at !== place).map((at) => (at > place ? at - 1 : at)));
  };
  if (members.length === 0) return null;
  return (
    <Input.Wrapper
      label="Options"
      description="Those left alone have their strategy's defaults. One strategy may race several times, with other options."
      error={alike && `Two are called ${alike}: change an option of one of them, or give it a name`}
    >
      <Stack gap={4} mt={6}>
        {members.map((member, place) => {
          const name = nameOf(member);
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: members have no other identity
            <Paper key={place} p={4} withBorder={isOpen(place)} data-testid={`race-member-${place}`}>
              <Group gap="xs" wrap="nowrap" justify="space-between">
                <Text size="sm" style={{ overflowWrap: "anywhere" }}>
                  {name}
                </Text>
                <Group gap={4} wrap="nowrap">
                  <Act label={`Options of ${name}`} open={isOpen(place)} onAct={() => toggle(place)}>
                    Options
                  </Act>
                  <Act label={`${name} once more`} onAct={() => again(place)}>
                    Once more
                  </Act>
                  <Act label={`Remove ${name}`} onAct={() => remove(place)}>
                    Remove
                  </Act>
                </Group>
              </Group>
              {isOpen(place) && (
                <MemberFields
                  member={member}
                  entry={strategies.find((entry) => entry.name === member.strategy)}
                  job={job}
                  path={`members.${place}`}
                  errors={errors}
                  onMember={(changed) => onMembers(members.map((one, at) => (at === place ? changed : one)))}
                />
              )}
            </Paper>
          );
        })}
      </Stack>
    </Input.Wrapper>
  );
}

interface ActProps {
  /** With the member's name, which stands beside it for who sees it. */
  label: string;
  open?: boolean;
  onAct: () => void;
  children: string;
}

function Act({ label, open, onAct, children }: ActProps) {
  return (
    <Button size="compact-xs" variant="subtle" aria-label={label} aria-expanded={open} onClick={onAct}>
      {children}
    </Button>
  );
}
