"""What the rounds of a run share: a data directory, the server under test, the witness."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from backend.chaos import checks
from backend.chaos.lineage import Lineage
from backend.chaos.places import Places
from backend.chaos.ports import reserve
from backend.chaos.ray_nodes import RayNodes
from backend.chaos.round import Deeds, Round, RoundError
from backend.chaos.script import DEVICES, Script, draw, job, over_nodes
from backend.chaos.service import Service
from backend.chaos.witness import Witness
from backend.client import Client
from backend.db.engine import open_engine, sqlite_url
from backend.db.models import Job
from backend.executors import process
from engine import lab


class Yard:
    """`with Yard(data_dir) as yard`: a server runs there. Entering trains one undisturbed job, whose time says when
    in a job's life the deaths of a round fall."""

    def __init__(
        self,
        data_dir: Path,
        data_plane: str = "auto",
        database: str | None = None,
        nodes: RayNodes | None = None,
    ) -> None:
        """`data_plane`: who moves the bytes of its jobs (engine/transport/plane.py). `database`: the URL of the
        server's; None: a file in `data_dir`. `nodes`: the Ray cluster on which its jobs run; None: on this machine."""
        self._data_dir = data_dir.resolve()
        self._data_dir.mkdir(parents=True, exist_ok=True)
        self._reserved = reserve()
        port = int(self._reserved.getsockname()[1])
        self.database = database or sqlite_url(self._data_dir / "trainyard.db")
        self.witness = Witness(port)
        self._places = Places(data_dir=self._data_dir, nodes=nodes)
        self._lineage = Lineage(self._places)
        self._labs = lab.permitted() is None and nodes is None
        self._service = Service(
            self._data_dir,
            ingest_url=self.witness.url,
            port=port,
            devices=DEVICES,
            data_plane=data_plane,
            database=self.database,
            ray=None if nodes is None else nodes.address,
        )
        self._deeds = Deeds()
        """Of all rounds."""
        self._ended: set[str] = set()
        """Jobs of all rounds."""
        self.span_s = 0.0

    def __enter__(self) -> Yard:
        try:
            self._service.start()
            calm = job(f"undisturbed {time.time_ns()}")
            if self._places.nodes is not None:
                calm = over_nodes(calm, spread=True)
            with Client(self._service.url) as client:
                client.preview(calm)  # describes the model, which takes seconds, once
            began = time.monotonic()
            _, wrong = self._play(Script(jobs=(calm,), steps=()))
            self.span_s = time.monotonic() - began
            if wrong:
                raise RoundError(f"without any death: {'; '.join(wrong)}")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends everything that runs; the data stay."""
        self._service.stop()
        self._reserved.close()
        self.witness.close()
        self._lineage.close()
        for _, directory in self._places.all():
            process.kill_marked(directory)

    def round(self, seed: int, number: int) -> tuple[list[str], list[str]]:
        """One round: what happened, and what is wrong."""
        return self._play(draw(seed, number, labs=self._labs, nodes=self._places.nodes is not None))

    def at_last(self) -> list[str]:
        """What is wrong with the jobs of all rounds, after all of them."""
        return self.wrong_in(self.database, self._ended)

    def wrong_in(self, database: str, only: Collection[str] | None = None) -> list[str]:
        """What is wrong with the jobs in this database, a URL; `only`: with these."""
        engine = open_engine(database, readonly=True)
        try:
            with Session(engine) as session:
                every = select(Job).options(joinedload(Job.attempts)).order_by(Job.id)
                jobs = [job for job in session.scalars(every).unique() if only is None or job.id in only]
                wrong = [
                    line for job in jobs for line in checks.ends(session, job, self._deeds, self._places)
                ]
            return wrong + [
                line for job in jobs for line in checks.recorded(engine, self.witness, job, self._places)
            ]
        finally:
            engine.dispose()

    def _play(self, script: Script) -> tuple[list[str], list[str]]:
        round_ = Round(script, self._service, self._places, self.span_s, self._deeds)
        try:
            ended = {job.id for job in round_.run()}
            self._ended |= ended
            wrong = [*checks.orphans(self._lineage), *checks.hosts(self._lineage)]
            with Client(self._service.url) as client:
                wrong += checks.devices(client)
            wrong += self.wrong_in(self.database, ended)
        except RoundError as error:
            wrong = [str(error)]
        if wrong and not self._service.up:
            wrong.append(f"the server does not run; it said:\n{self._service.last_words()}")
        return round_.story.lines, wrong
