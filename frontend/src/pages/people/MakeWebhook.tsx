import { Alert, Button, Checkbox, Code, CopyButton, Group, MultiSelect, TextInput } from "@mantine/core";
import { client, unwrap } from "../../api/client";
import { useAddForm } from "../../components/useAddForm";
import { EVENTS, type Told } from "../../lib/webhooks";
import { usePeopleChange } from "./usePeopleChange";

const EMPTY = { name: "", url: "", events: ["job.ended", "race.ended"] as Told[], everybodys: false };

/** Names an address that is to be told, and shows the key of its messages, this once. */
export function MakeWebhook() {
  const make = usePeopleChange(
    ({ name, url, ...more }: typeof EMPTY) =>
      unwrap(client.POST("/api/v1/webhooks", { body: { ...more, name: name.trim(), url: url.trim() } })),
    "No webhook made",
  );
  const { fields, put, typed, submit } = useAddForm(EMPTY, ["name", "url"], make);
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
            {...typed("name")}
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
            {...typed("url")}
            data-testid="new-webhook-url"
          />
          <MultiSelect
            size="xs"
            w={300}
            label="When"
            data={[...EVENTS]}
            value={fields.events}
            onChange={(given) => put({ events: given as Told[] })}
            hidePickedOptions
          />
          <Checkbox
            size="xs"
            mb={6}
            label="of everybody's"
            checked={fields.everybodys}
            onChange={(event) => put({ everybodys: event.currentTarget.checked })}
          />
          <Button
            type="submit"
            size="xs"
            variant="light"
            disabled={fields.events.length === 0}
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
