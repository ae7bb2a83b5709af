"""How fast does each codec encode and decode on one core?

Slices of 50,000 and of 800,000 elements, normally distributed, in float32. Gradients come from memory, not from the
core's cache: each round goes once over as many slices as hold 64 MiB. What keeps a residual is measured with it, as
jobs use it. Codecs take turns, so that other load on the machine meets all of them. Rates are gigabytes of gradient in
a second, whatever travels of them: a link at r Gbit/s takes r / 8 of those as they are.
Run: `python -m engine.benchmarks.codecs`; `--codecs qsgd,terngrad` for some of them.
"""

from __future__ import annotations

import torch

from engine.allocator import keep_freed_memory
from engine.axes.codec import CODEC
from engine.benchmarks.harness.report import Report, arguments
from engine.codec.trial import WORK, Slices, Trial, ways

SIZES = (50_000, 800_000)
TOTAL_BYTES = 64 * 2**20


def main() -> None:
    parser = arguments(__doc__)
    known = [codec.name for codec in CODEC if codec.available]
    parser.add_argument("--codecs", default=",".join(known), help="names, separated by commas")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    names = [CODEC.require(name, "codecs").name for name in options.codecs.split(",")]
    rounds, total = (2, 4 * 2**20) if options.quick else (options.rounds, TOTAL_BYTES)
    torch.set_num_threads(1)
    keep_freed_memory()
    title, question = "Codecs on one core", "How fast does each codec encode and decode?"
    with Report("codecs", title, question, options) as report:
        trials = [
            Trial(way, slices) for slices in (Slices.of(n, total) for n in SIZES) for way in ways(names)
        ]
        seconds = len(trials) * rounds * 3 * total / 1e9
        report.plan([f"{len(trials)} codecs and sizes, {rounds} rounds"], minutes=seconds / 60)
        report.method(
            "One thread, one process, with the allocator set as in jobs. A round goes over"
            f" {total / 2**20:.0f} MiB of slices that are normally distributed; codecs take turns; medians of {rounds}"
            " rounds after one that is not counted. GB/s of float32 gradient; `encode` includes the residual of those"
            " that keep one, and putting the message together; `decode` writes over float32, `decode and add` adds to"
            " it. `bytes` is the share of the gradient's bytes that travels."
        )
        for trial in trials:
            trial.round()
            for rates in trial.rates.values():
                rates.clear()
        for turn in range(rounds):
            for trial in trials if turn % 2 == 0 else reversed(trials):
                trial.round()
        for trial in trials:
            report.raw(trial.raw())
        columns = ["codec", "elements", "bytes", *(f"{work}, GB/s" for work in WORK)]
        report.table("On one core", columns, [trial.row() for trial in trials])


if __name__ == "__main__":
    main()
