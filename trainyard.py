"""Trainyard from Python, in a program or in a notebook: the one module that users import.

    from trainyard import Client

    with Client() as trainyard:
        race = trainyard.race("job.yaml", strategies=["parameter-server", "p3"], rates=["100Mbit", "1Gbit"])
        print(race)                                  # who is fastest at which rate, and why
        race.to_pandas()                             # the same for pandas; `race.rows` where that is not installed
        trainyard.compare("019ac2f3", "019ac300")    # jobs side by side
        trainyard.figure("019ac2f3...", "timeline").show()

A server that asks for a token gets the one in TRAINYARD_TOKEN. `ranking` and `compare` take any beginning of an id
that only one race or job has. Errors: `ServerUnreachableError` where nobody answers, `ApiError` for everything that
the service refuses, `UserError` for what cannot be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

try:
    from backend.cli import ids
    from backend.cli.jobs import read_spec
    from backend.client import ENDED, ApiError, ServerUnreachableError, each
    from backend.client import Client as _Client
    from backend.schemas.races import RaceView
    from backend.tables import RaceTable, Table, jobs_table
    from engine.errors import UserError
    from engine.plan.job import JobSpec
    from engine.plan.serde import to_plain
except ModuleNotFoundError as error:
    raise ImportError(
        f"trainyard needs {error.name}, which is not installed: pip install 'trainyard[server]'"
    ) from error

__all__ = [
    "ENDED",
    "ApiError",
    "Client",
    "JobSpec",
    "RaceTable",
    "ServerUnreachableError",
    "Table",
    "UserError",
]


class Client(_Client):
    """A server, and everything that it can be asked, as methods."""

    def race(
        self,
        job: JobSpec | Mapping[str, Any] | str | Path,
        strategies: str | Sequence[str] = (),
        *,
        members: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
        rates: str | Sequence[str] = (),
        workers: int | Sequence[int] = (),
        batches: int | Sequence[int] = (),
        rounds: int | None = None,
        beside: bool = False,
        name: str | None = None,
        wait: bool = True,
        on_look: Callable[[RaceView], None] = lambda _: None,
    ) -> RaceTable:
        """Race strategies on one job: which is fastest on which network, and why.

        `job`: a specification, or the path of a YAML or JSON file that holds one. `strategies`: who races; `members`:
        more of them, as mappings with `strategy`, `options`, `overrides` and `name`; without either, the recommended
        ones. At each of the `rates` (as `100Mbit`), numbers of `workers` and global `batches`, in so many `rounds` (4).
        One of them may be given by itself: `rates="1Gbit"`. `beside`: other jobs may run at the same time. With `wait`
        the answer comes when the race has ended, and `on_look` sees it until then; without, `client.ranking(table.id)`
        reads it again.
        """
        spec = read_spec(Path(job)) if isinstance(job, str | Path) else to_plain(job)
        everyone = [*({"strategy": strategy} for strategy in each(strategies)), *map(dict, each(members))]
        given: dict[str, Any] = {
            "name": name,
            "members": everyone,
            "rates": each(rates),
            "workers": each(workers),
            "batches": each(batches),
            "rounds": rounds,
            "beside": beside,
        }
        made = self.start_race(
            {"job": spec} | {field: value for field, value in given.items() if value or value == 0}
        )
        return RaceTable.of(self.wait_for_race(made.id, on_look=on_look) if wait else made)

    def ranking(self, race: str) -> RaceTable:
        """A race as it stands, by its id."""
        return RaceTable.of(self.standings(ids.race_id(self, race)))

    def compare(self, *jobs: str | Sequence[str]) -> Table:
        """Jobs side by side: time per step, waiting, throughput, accuracy, and the speed-up over the first one. Each
        once, one after another or as a list."""
        named = [text for given in jobs for text in each(given)]
        if not named:
            raise UserError("jobs", named, "there is nothing to compare", "Give the ids of jobs")
        whole = [self.job(ids.job_id(self, text)) for text in named]
        if len({job.id for job in whole}) < len(whole):
            raise UserError("jobs", named, "names a job twice", "Give each job once")
        first = whole[0].id
        return jobs_table(
            [(job, self.summary(job.id, baseline=first if job.id != first else None)) for job in whole]
        )
