"""`make fuzz N=2000 SEED=7`: so many random networks, trained by the engine and by a plain loop.

python -m tests.fuzz --networks 2000 --seed 7 [--first 1000] [--only 123] [--shrink 60] [--keep FOLDER] [--compiled]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.fuzz import campaign
from tests.fuzz.leaks import private_temporaries


def main() -> int:
    """Exit status 1 where a network failed, or too many decide nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=200, help="how many")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the campaign; a new one each time unless given"
    )
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first network: several processes share a campaign"
    )
    parser.add_argument(
        "--only", type=int, action="append", help="only the network of this number; may be repeated"
    )
    parser.add_argument(
        "--shrink", type=float, default=60.0, help="seconds to make a failure smaller; 0: not at all"
    )
    parser.add_argument(
        "--keep", type=Path, default=None,
        help="folder of the failures' programs and of what came of each network; given again with the same seed, the"
        " campaign goes on",
    )  # fmt: skip
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="compile every network with torch.compile, the whole of it or parts",
    )
    given = parser.parse_args()
    seed = int(time.time()) % 1_000_000 if given.seed is None else given.seed
    folder = given.keep or Path(tempfile.mkdtemp(prefix="trainyard-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    private_temporaries(folder / "temporary")
    print(f"{given.networks} networks of seed {seed}; what comes of them is kept in {folder}", flush=True)
    tally = campaign.run(
        seed,
        folder,
        networks=given.networks,
        first=given.first,
        only=given.only or (),
        shrink_s=given.shrink,
        say=lambda text: print(text, flush=True),
        compiled=given.compiled,
    )
    print(tally.text())
    return 0 if tally.sound else 1


if __name__ == "__main__":
    sys.exit(main())
