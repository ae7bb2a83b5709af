import { Button, Group } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { type RefObject, useState } from "react";
import type { PlotlyFigure } from "../api/types";
import { download, fileName } from "../lib/csv";
import { figureCsv } from "../lib/figureCsv";
import { loadPlotly } from "./plotly";

interface Props {
  /** Where it is drawn. */
  element: RefObject<HTMLElement | null>;
  figure: PlotlyFigure;
  /** The files' name: the job and the figure. */
  file: () => string;
}

/** Takes a figure along: as it is drawn, as SVG, and its data as CSV. */
export function TakeFigure({ element, figure, file }: Props) {
  const [busy, setBusy] = useState(false);
  const picture = async () => {
    const target = element.current;
    if (!target) return;
    setBusy(true);
    try {
      await drawn(target);
      const plotly = await loadPlotly();
      const { offsetWidth: width, offsetHeight: height } = target;
      const address = await plotly.toImage(target, { format: "svg", width, height });
      const svg = decodeURIComponent(address.slice(address.indexOf(",") + 1));
      download(withBackground(svg), fileName(file(), "svg"), "image/svg+xml");
    } finally {
      setBusy(false);
    }
  };
  const button = {
    size: "compact-xs",
    variant: "subtle",
    color: "gray",
    leftSection: <IconDownload size={12} />,
  } as const;
  return (
    <Group gap={0} justify="flex-end">
      <Button
        {...button}
        loading={busy}
        aria-label={`SVG of ${file()}`}
        onClick={() => void picture()}
        data-testid="figure-svg"
      >
        SVG
      </Button>
      <Button
        {...button}
        aria-label={`CSV of ${file()}`}
        onClick={() => download(figureCsv(figure), fileName(file(), "csv"), "text/csv")}
        data-testid="figure-csv"
      >
        CSV
      </Button>
    </Group>
  );
}

/** Until it is: one that has just come into sight, or is drawn anew, may not be yet. */
function drawn(target: HTMLElement): Promise<void> {
  return new Promise((done) => {
    const watching = new MutationObserver(look);
    function look() {
      if (!target.dataset.drawn) return;
      watching.disconnect();
      done();
    }
    watching.observe(target, { attributes: true, attributeFilter: ["data-drawn"] });
    look();
  });
}

/** Figures are transparent: the page is behind them, and its colour goes along, because the text is made for it. */
function withBackground(svg: string): string {
  const colour = getComputedStyle(document.body).getPropertyValue("--mantine-color-body").trim() || "#fff";
  return svg.replace(/<svg[^>]*>/, (head) => `${head}<rect width="100%" height="100%" fill="${colour}"/>`);
}
