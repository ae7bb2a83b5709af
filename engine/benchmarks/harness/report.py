"""One benchmark's dated result: `<date>-<name>.json` with the raw table, `<date>-<name>.md` for people.

with Report("transport", "Transport on shaped links", "Which share of a link is goodput?", options) as report:
    report.plan(["..."], minutes=3)
    report.method("...")
    report.raw(dictionaries)                          # as each is measured
    report.table("Goodput", ["rate", "share"], rows)  # again whenever there are more rows: the last one stays
    report.aims([("goodput of 0.9", 0.93, True)])
sys.exit(report.exit_code())

It is written when the block ends. Where the block fails or is interrupted (Ctrl-C, SIGTERM), what was measured until
then is kept as `<date>-<name>-incomplete`, which says what ended it.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from engine.benchmarks.harness.machine import ROOT, CpuMeter, command, commit, hardware

RESULTS = ROOT / "engine" / "benchmarks" / "results"
_INCOMPLETE = "**Incomplete**: it ended before its end ({}). What stands here was measured until then."


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A parser with what every benchmark has."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="a short set: does it run, roughly what comes out"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the result is written")
    return parser


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; floats with four significant digits."""
    cells = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    lines = [columns, ["---"] * len(columns), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


class Report:
    """Collects one result, and writes it when left, whatever happens. The machine is described when it is made, its
    CPU use metered from when it is entered. For the main thread, which gets signals."""

    path: Path
    """Of the JSON file, once it is written."""

    def __init__(self, name: str, title: str, question: str, options: argparse.Namespace) -> None:
        self._options = options
        self._name = f"{name}-quick" if options.quick else name
        self._begun = time.time()
        self._missed: list[str] = []
        self._sections: dict[str, str] = {}
        """Tables by title, notes by themselves, in the order in which they first came."""
        self._data: dict[str, Any] = {
            "name": self._name,
            "title": title + (" (short set)" if options.quick else ""),
            "question": question,
            "date": time.strftime("%Y-%m-%d", time.gmtime(self._begun)),
            "command": command(),
            "commit": commit(),
            "hardware": hardware(),
            "method": [],
            "tables": {},
            "raw": [],
        }
        self._meter = CpuMeter(every_s=1.0)
        self._on_sigterm: Any = None

    def __enter__(self) -> Report:
        # SIGTERM interrupts as Ctrl-C does: what was started is ended, and what was measured is written.
        self._on_sigterm = signal.signal(signal.SIGTERM, _interrupt_once)
        self._meter.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._meter.__exit__(kind, error, trace)
        if error is None:
            self._write()
        elif self._data["raw"] or self._data["tables"]:
            first_line = str(error).partition("\n")[0]
            self._data["incomplete"] = f"{type(error).__name__}: {first_line}".removesuffix(": ")
            self._data["title"] += " (incomplete)"
            self._name += "-incomplete"
            self._write()
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def plan(self, steps: Sequence[str], minutes: float) -> None:
        """Say what is going to be done and how long it takes, before it begins."""
        print(f"{self._data['title']}: about {minutes:.3g} minutes")
        for step in steps:
            print(f"- {step}", flush=True)

    def method(self, text: str) -> None:
        """How it was measured: a sentence or a paragraph."""
        self._data["method"].append(text)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Show a table now and in the result. One of the same title takes the place of the one before."""
        text = table(columns, rows)
        print(f"\n{title}\n\n{text}", flush=True)
        self._sections[title] = f"## {title}\n\n{text}"
        self._data["tables"][title] = [dict(zip(columns, row, strict=True)) for row in rows]

    def note(self, text: str) -> None:
        """A remark under the last table."""
        print(text, flush=True)
        self._sections[text] = text

    def aims(self, rows: Sequence[tuple[str, Any, bool]]) -> None:
        """What was wanted, what was found instead or in its place, and whether that holds."""
        self.table("Aims", ["aim", "found", "held"], [(*row[:2], "yes" if row[2] else "NO") for row in rows])
        self._missed += [aim for aim, _, held in rows if not held]

    def exit_code(self) -> int:
        """1 where a full run missed an aim; a short one only says what it found, as it is too short to hold it to
        anything."""
        return 1 if self._missed and not self._options.quick else 0

    def raw(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """What was measured, one by one; given as soon as it is there, it outlives a failure of the next."""
        self._data["raw"].extend(dict(row) for row in rows)

    def _write(self) -> None:
        """Write both files. A result of another commit, or of changed files, is never replaced: the new one gets a
        number."""
        self._data["cpu_share"] = round(self._meter.share(), 3)
        self._data["seconds"] = round(time.time() - self._begun, 1)
        self._options.out.mkdir(parents=True, exist_ok=True)
        path = self._free(self._options.out / f"{self._data['date']}-{self._name}.json")
        path.write_text(json.dumps(self._data, indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(self._text(), encoding="utf-8")
        self.path = path
        print(f"\nwritten: {path}", flush=True)

    def _free(self, path: Path) -> Path:
        wanted, number = path, 1
        while path.exists() and not self._options.quick:
            theirs = json.loads(path.read_text(encoding="utf-8"))
            same = all(theirs[key] == self._data[key] for key in ("commit", "command"))
            if same and "changes" not in theirs["commit"] and theirs["commit"] != "unknown":
                break
            number += 1
            path = wanted.with_stem(f"{wanted.stem}-{number}")
        return path

    def _text(self) -> str:
        data, machine = self._data, self._data["hardware"]
        head = [
            f"# {data['title']}",
            data["question"],
            *([_INCOMPLETE.format(data["incomplete"])] if "incomplete" in data else []),
            "\n".join(
                [
                    f"- {data['date']}, {data['seconds']:.0f} s, commit {data['commit']}",
                    f"- `{data['command']}`",
                    f"- {machine['cores']} cores, {machine['cpu']}, {machine['memory_bytes'] / 2**30:.1f} GiB, "
                    f"Linux {machine['kernel']}, Python {machine['python']}, torch {machine['torch']}",
                    f"- load before {machine['load_before']}; CPU use over the whole run {data['cpu_share']:.0%}",
                ]
            ),
            *data["method"],
        ]
        raw = self._data["raw"]
        tail = [] if not raw else ["## Raw", _raw_table(raw)]
        return "\n\n".join([*head, *self._sections.values(), *tail]) + "\n"


def _interrupt_once(*_: object) -> None:
    """Whoever asks again must not disturb the end that has begun."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _raw_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Single values of every row; lists stay in the JSON file."""
    columns = [
        key
        for key in dict.fromkeys(key for row in rows for key in row)
        if not any(isinstance(row.get(key), (list, tuple, dict)) for row in rows)
    ]
    return table(columns, [[row.get(column, "") for column in columns] for row in rows])
