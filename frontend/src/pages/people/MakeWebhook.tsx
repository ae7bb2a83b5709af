import { Alert, Button, Checkbox, Code, CopyButton, Group, MultiSelect, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { client, unwrap } from "../../api/client";
import { EVENTS, type Told } from "../../lib/webhooks";
import { usePeopleChange } from "./usePeopleChange";

/** Names an address that is to be told, and shows the key of its messages, this once. */
export function MakeWebhook() {
  const [name, setName] = useState("");
  const [url, setUrl] = useState("");
  const [events, setEvents] = useState<Told[]>(["job.ended", "race.ended"]);
  const [everybodys, setEverybodys] = useState(false);
  const make = usePeopleChange(
    () =>
      unwrap(
        client.POST("/api/v1/webhooks", { body: { name: name.trim(), url: url.trim(), events, everybodys } }),
      ),
    "No webhook made",
  );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    make.mutate(undefined, {
      onSuccess: () => {
        setName("");
        setUrl("");
      },
    });
  };
  return (
    <>
      <form onSubmit={submit}>
        <Group gap="xs" align="flex-end" mt="sm">
          <TextInput
            size="xs"
            label="Tell"
            placeholder="our chat"
            required
            withAsterisk={false}
            maxLength={100}
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            data-testid="new-webhook"
          />
          <TextInput
            size="xs"
            w={320}
            label="At"
            placeholder="https://chat.example.org/hooks/42"
            type="url"
            autoComplete="off"
            required
            withAsterisk={false}
            maxLength={2000}
            value={url}
            onChange={(event) => setUrl(event.currentTarget.value)}
            data-testid="new-webhook-url"
          />
          <MultiSelect
            size="xs"
            w={300}
            label="When"
            data={[...EVENTS]}
            value={events}
            onChange={(given) => setEvents(given as Told[])}
            hidePickedOptions
          />
          <Checkbox
            size="xs"
            mb={6}
            label="of everybody's"
            checked={everybodys}
            onChange={(event) => setEverybodys(event.currentTarget.checked)}
          />
          <Button
            type="submit"
            size="xs"
            variant="light"
            disabled={events.length === 0}
            loading={make.isPending}
            data-testid="make-webhook"
          >
            Add
          </Button>
        </Group>
      </form>
      {make.data && (
        <Alert
          color="green"
          mt="sm"
          title={`The key of ${make.data.name}, shown only now`}
          withCloseButton
          closeButtonLabel="It is kept"
          onClose={make.reset}
          data-testid="made-webhook"
        >
          <Group gap="xs">
            <Code style={{ overflowWrap: "anywhere" }}>{make.data.key}</Code>
            <CopyButton value={make.data.key}>
              {({ copied, copy }) => (
                <Button size="compact-xs" variant="default" onClick={copy}>
                  {copied ? "Copied" : "Copy"}
                </Button>
              )}
            </CopyButton>
          </Group>
          Its receiver tells by it that messages are this server's, with any library of Standard Webhooks.
        </Alert>
      )}
    </>
  );
}
