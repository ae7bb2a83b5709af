"""`python -m backend.chaos --rounds 200 --seed 7`: exit code 0 where everything held in every round."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from backend.chaos.ray_nodes import ray_nodes
from backend.chaos.script import DEVICES
from backend.chaos.yard import Yard


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m backend.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="how many (default: 10)")
    parser.add_argument("--seed", type=int, help="default: drawn, and printed")
    parser.add_argument("--only", type=int, help="this round of the seed alone")
    parser.add_argument("--data-dir", type=Path, help="kept afterwards; default: a temporary one")
    parser.add_argument(
        "--data-plane",
        choices=("auto", "python", "c"),
        default="auto",
        help="who moves the jobs' bytes",
    )
    parser.add_argument(
        "--database",
        choices=("sqlite", "postgresql"),
        default="sqlite",
        help="the server's; postgresql: a cluster of its own, from the wheel, of which nothing is kept",
    )
    parser.add_argument(
        "--executor",
        choices=("local", "ray"),
        default="local",
        help="the server's; ray: on two nodes of a cluster of its own on this machine, which die, too",
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    seed = random.randrange(10**6) if given.seed is None else given.seed
    numbers = range(given.rounds) if given.only is None else [given.only]
    data_dir = given.data_dir or Path(tempfile.mkdtemp(prefix="chaos-"))
    print(f"seed {seed}, {len(numbers)} rounds, data in {data_dir}", flush=True)
    failed = 0
    with ExitStack() as stack:
        database = None
        if given.database == "postgresql":
            from backend.postgres import cluster  # noqa: PLC0415 - its driver is an extra

            database = stack.enter_context(cluster()).new_database()
        nodes = stack.enter_context(ray_nodes(2, cpus=DEVICES)) if given.executor == "ray" else None
        yard = stack.enter_context(Yard(data_dir, given.data_plane, database, nodes))
        print(f"an undisturbed job takes {yard.span_s:.1f} s", flush=True)
        for number in numbers:
            story, wrong = yard.round(seed, number)
            failed += bool(wrong)
            print(f"round {number}: {'FAILED' if wrong else 'ok'}", flush=True)
            if wrong:
                lines = (
                    *story,
                    "wrong:",
                    *wrong,
                    f"again: --seed {seed} --only {number} --data-plane {given.data_plane}"
                    f" --database {given.database} --executor {given.executor}",
                )
                print("\n".join(f"    {line}" for line in lines), flush=True)
        wrong = yard.at_last()
        for line in wrong:
            print(f"at the end: {line}")
    print(f"seed {seed}: {len(numbers) - failed} of {len(numbers)} rounds held", flush=True)
    if not failed and not wrong and given.data_dir is None:
        shutil.rmtree(data_dir)
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
