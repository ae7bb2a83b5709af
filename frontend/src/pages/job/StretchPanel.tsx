import { Paper, Skeleton, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { memo } from "react";
import { stretchQuery } from "../../api/queries";
import type { LinkStretch } from "../../api/types";
import { layerRow } from "../../components/layerRow";
import { Problem } from "../../components/Problem";
import { TakeTable } from "../../components/TakeTable";
import { formatBytes, formatMs, formatPercent } from "../../lib/format";
import { OVERFULL, whyOverfull } from "../../lib/overfull";
import { movedHead, stretchRows, waitedWords } from "../../lib/stretchRows";

interface Props {
  jobId: string;
  /** Its name in files. */
  jobName: string;
  attempt: number | undefined;
  from_ns: number;
  to_ns: number;
  /** Where the attempt's clock is 0 on the figures' axis. */
  origin_ns: number;
  /** The links that the drawing shows, with commas: fewer than there are, and none that an old address still names. Empty:
   * there is none yet; undefined: the drawing has not come. */
  link: string | undefined;
  layer: number | undefined;
  /** Both stable: rows are not drawn again while one points. */
  onLayer: (layer: number) => void;
  onPointed: (layer: number | undefined) => void;
}

/** What happened in the selected stretch of time: bytes by layer and link, and what was waited for. */
export const StretchPanel = memo(function StretchPanel({
  jobId,
  jobName,
  attempt,
  origin_ns,
  link,
  layer,
  onLayer,
  onPointed,
  ...asked
}: Props) {
  const query = useQuery({
    ...stretchQuery(jobId, { attempt, link: link || undefined, ...asked }),
    enabled: link !== undefined,
  });
  const found = query.data;
  const first = found?.layers.findIndex((row) => oneOf(row) !== undefined);
  return (
    <Paper p="sm" data-testid="stretch">
      <Title order={2} fz="md" mb={4}>
        The selected stretch
      </Title>
      {query.error && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      {!found && !query.error && <Skeleton height={160} />}
      {found && (
        <>
          <Text size="xs" c="dimmed" mb="xs">
            {wordsOf(found, origin_ns)}
          </Text>
          {found.layers.length > 0 && (
            <TakeTable file={`${jobName} stretch`} rows={() => stretchRows(found)}>
              <Table.ScrollContainer
                minWidth={320 + 120 * found.links.length}
                maxHeight={420}
                type="native"
                className="ty-layers"
              >
                <Table
                  fz="xs"
                  horizontalSpacing={8}
                  verticalSpacing={3}
                  stickyHeader
                  role="grid"
                  data-testid="stretch-table"
                >
                  <Head found={found} />
                  <Table.Tbody>
                    {found.layers.map((row, place) => (
                      <Row
                        key={row.index}
                        row={row}
                        links={found.links.length}
                        first={place === first}
                        lit={layer !== undefined && row.index <= layer && layer <= row.last_index}
                        onLayer={onLayer}
                        onPointed={onPointed}
                      />
                    ))}
                  </Table.Tbody>
                </Table>
              </Table.ScrollContainer>
            </TakeTable>
          )}
        </>
      )}
    </Paper>
  );
});

function Head({ found }: { found: LinkStretch }) {
  const { links } = found;
  return (
    <Table.Thead>
      <Table.Tr>
        <Table.Th scope="col">Layer</Table.Th>
        <Table.Th scope="col" ta="right">
          Waited for
        </Table.Th>
        {links.map((link) => (
          <Table.Th key={`${link.key} ${link.direction}`} scope="col" ta="right">
            {movedHead(link)}
            <Text size="xs" c="dimmed" fw={400}>
              {link.interface} on {link.host}
              {link.by_size && ", split by size"}
            </Text>
          </Table.Th>
        ))}
      </Table.Tr>
      <Table.Tr>
        <Table.Th scope="row">All</Table.Th>
        <Waited of={found} />
        {links.map((link) => (
          <Table.Td key={`${link.key} ${link.direction}`} ta="right" className="ty-number" fw={600}>
            {moved(link)}
          </Table.Td>
        ))}
      </Table.Tr>
    </Table.Thead>
  );
}

interface RowProps {
  row: LinkStretch["layers"][number];
  links: number;
  first: boolean;
  lit: boolean;
  onLayer: (layer: number) => void;
  onPointed: (layer: number | undefined) => void;
}

const Row = memo(function Row({ row, links, ...asked }: RowProps) {
  const cells = Array.from({ length: links }, (_, link) => row.moved.find((each) => each.link === link));
  return (
    <Table.Tr data-layer={row.index} {...layerRow({ layer: oneOf(row), ...asked })}>
      <Table.Th scope="row" fw={400}>
        {row.index < 0 ? "belongs to no layer" : row.layer_name}
      </Table.Th>
      <Waited of={row} />
      {cells.map((cell, link) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a column is its link's place
        <Table.Td key={link} ta="right" className="ty-number">
          {cell ? moved(cell) : ""}
        </Table.Td>
      ))}
    </Table.Tr>
  );
});

/** The layer of a row; undefined of what belongs to none, or to several. */
function oneOf({ index, last_index }: RowProps["row"]): number | undefined {
  return index >= 0 && index === last_index ? index : undefined;
}

/** `129 ms in 7 waits`; nothing where there were none. */
function Waited({ of }: { of: { waits: number; waited_ns: number } }) {
  return (
    <Table.Td ta="right" className="ty-number" c={of.waits > 0 ? "var(--ty-wait)" : "dimmed"}>
      {waitedWords(of)}
    </Table.Td>
  );
}

/** `1.2 MiB (34.0 %)`: of the rate, where that is known. */
function moved({ bytes, share }: { bytes: number; share: number | null }): string {
  return share === null ? formatBytes(bytes) : `${formatBytes(bytes)} (${formatPercent(share)})`;
}

/** Which stretch it is, what percentages are of, and what is not counted. */
function wordsOf(
  { from_ns, to_ns, bin_ns, links, layers, steps_without_events }: LinkStretch,
  origin: number,
): string {
  const second = (ns: number) => ((ns - origin) / 1e9).toFixed(3);
  const fullest = links.toSorted((one, other) => (other.most ?? 0) - (one.most ?? 0))[0];
  const most = fullest?.most ?? 0;
  const said = [
    `${second(from_ns)} to ${second(to_ns)} s, in whole bins of ${formatMs(bin_ns / 1e6)}.`,
    layers.length === 0
      ? "Nothing went over these links, and nothing was waited for."
      : "Percentages are of what the link's rate allows in this time.",
    most > OVERFULL &&
      `The fullest of these bins, ${formatMs(bin_ns / 1e6)} wide, holds ${formatPercent(most)}: ${whyOverfull(fullest?.rate_source === "declared")}`,
    steps_without_events > 0 &&
      `Of ${steps_without_events} ${steps_without_events === 1 ? "step" : "steps"} here the events were not kept, and so no waits are counted.`,
  ];
  return said.filter(Boolean).join(" ");
}
