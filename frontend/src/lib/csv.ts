export type Cell = string | number | null | undefined;

// What a spreadsheet calculates, where a cell begins with it: white space before it does not count, and in some
// languages signs may be as wide as ideographs.
const FORMULA = /^[\s\u200b]*[=+\-@＝＋－＠]|^[\t\r\n]/;
// What some spreadsheets end a cell or a row at: some take semicolons or tabs for commas.
const PARTS = /[",;\t\r\n]/;
const NUMBER = /^[+-]?\d+(\.\d+)?(e[+-]?\d+)?$/i;

/** Rows as CSV (RFC 4180): lines end in CRLF, and what holds a comma, a semicolon, a tab, a quote or a line break is
 * quoted. Before a text that a spreadsheet would take for a formula stands an apostrophe: names of jobs are anybody's
 * words. */
export function csvOf(rows: Cell[][]): string {
  return rows
    .map((row) => row.map(written).join(","))
    .join("\r\n")
    .concat("\r\n");
}

/** A table of the page: what its cells say, row by row. */
export function rowsOf(table: HTMLTableElement): string[][] {
  return Array.from(table.rows, (row) => Array.from(row.cells, textOf)).filter((row) => row.some(Boolean));
}

/** A name for a file: what no file system refuses, in lower case. */
export function fileName(name: string, ending: string): string {
  const plain = name
    .toLowerCase()
    .replace(/[^\p{L}\p{N}.]+/gu, "-")
    .replace(/^[-.]+|-+$/g, "");
  return `${plain || "trainyard"}.${ending}`;
}

/** Hand a text to the browser as a file. */
export function download(text: string, name: string, type: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function written(cell: Cell): string {
  if (cell === null || cell === undefined || (typeof cell === "number" && !Number.isFinite(cell))) return "";
  const plain = String(cell);
  const text = FORMULA.test(plain) && !NUMBER.test(plain) ? `'${plain}` : plain;
  return PARTS.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A cell's words; what stands on lines of its own is parted by a space. */
function textOf(cell: HTMLElement): string {
  return (cell.innerText || cell.textContent || "").replace(/\s+/g, " ").trim();
}
