import { ActionIcon, Group, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconChevronDown, IconChevronUp } from "@tabler/icons-react";
import { useEffect, useRef, useState } from "react";
import { useKeys } from "../../components/useKeys";
import { MOST_MATCHES } from "../../lib/logLines";

// The address changes once one has stopped typing.
const TYPED_MS = 250;

interface Props {
  wanted: string;
  count: number;
  /** The one that is shown, by its number. */
  current: number;
  onWanted: (wanted: string) => void;
  onCurrent: (current: number) => void;
}

/** What to look for in a log; Enter goes to the next match, with Shift to the one before. */
export function LogSearch({ wanted, count, current, onWanted, onCurrent }: Props) {
  const field = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState(wanted);
  const told = useRef(wanted);
  useEffect(() => {
    // What the field itself asked for may come back when more has been typed.
    if (wanted !== told.current) setTyped(wanted);
    told.current = wanted;
  }, [wanted]);
  const tell = useDebouncedCallback((text: string) => {
    told.current = text;
    onWanted(text);
  }, TYPED_MS);
  const go = (by: 1 | -1) => count > 0 && onCurrent((current + by + count) % count);
  useKeys({ "/": () => field.current?.focus() });
  return (
    <Group gap={4} wrap="nowrap">
      <TextInput
        ref={field}
        size="xs"
        w={190}
        type="search"
        aria-label="Find in the log"
        placeholder="Find in the log ( / )"
        value={typed}
        onChange={(event) => {
          setTyped(event.currentTarget.value);
          tell(event.currentTarget.value);
        }}
        onKeyDown={(event) =>
          event.key === "Enter" && (tell.isPending() ? tell.flush() : go(event.shiftKey ? -1 : 1))
        }
        data-testid="log-find"
      />
      {wanted !== "" && (
        <>
          <Text size="xs" c="dimmed" className="ty-number" aria-live="polite" data-testid="log-matches">
            {count === 0
              ? "not found"
              : `${current + 1} of ${count}${count === MOST_MATCHES ? " or more" : ""}`}
          </Text>
          <ActionIcon
            variant="default"
            size="sm"
            aria-label="Previous match"
            disabled={count === 0}
            onClick={() => go(-1)}
          >
            <IconChevronUp size={14} />
          </ActionIcon>
          <ActionIcon
            variant="default"
            size="sm"
            aria-label="Next match"
            disabled={count === 0}
            onClick={() => go(1)}
          >
            <IconChevronDown size={14} />
          </ActionIcon>
        </>
      )}
    </Group>
  );
}
