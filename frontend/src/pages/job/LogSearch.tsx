import { ActionIcon, Group, Text, TextInput } from "@mantine/core";
import { IconChevronDown, IconChevronUp } from "@tabler/icons-react";
import { useRef } from "react";
import { useKeys } from "../../components/useKeys";
import { useTyped } from "../../components/useTyped";
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
  const { typed, type, tell } = useTyped(wanted, TYPED_MS, onWanted);
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
        onChange={(event) => type(event.currentTarget.value)}
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
