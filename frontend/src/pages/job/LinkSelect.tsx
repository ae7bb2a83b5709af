import { MultiSelect } from "@mantine/core";

/** What the drawing of the links says about them. */
export interface LinksMeta {
  links?: { value: string; label: string }[];
  shown?: string[];
  most_links?: number;
}

interface Props {
  drawn: LinksMeta;
  /** Those that somebody chose. */
  chosen: string[] | undefined;
  onLinks: (links: string[] | undefined) => void;
}

/** Which links are drawn: of many, a few at a time. */
export function LinkSelect({ drawn: { links = [], shown = [], most_links }, chosen = [], onLinks }: Props) {
  if (links.length < 2) return null;
  return (
    <MultiSelect
      size="xs"
      miw={180}
      maw={520}
      aria-label="Links that are drawn"
      placeholder={chosen.length > 0 ? undefined : `${shown.length} of ${links.length} links`}
      data={links}
      value={chosen}
      maxValues={most_links}
      hidePickedOptions
      searchable
      data-testid="link-select"
      onChange={(now) => onLinks(now.length > 0 ? now : undefined)}
    />
  );
}
