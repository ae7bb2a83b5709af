"""Starting and stopping everything that a server runs, in the order that keeps each part's needs alive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Protocol

from backend.db import Database
from backend.db.models import AuditEntry, Delivery
from backend.executors.registry import make_executor
from backend.scheduler.devices import take_inventory
from backend.scheduler.loop import Scheduler
from backend.scheduler.membership import FIGURES, RACES, RETENTION, SPEED_UPS, WEBHOOKS, member
from backend.services import lock
from backend.services.access import Access
from backend.services.audit import Audit
from backend.services.budgets import Budgets
from backend.services.checkpoints import CheckpointReader
from backend.services.context import Context
from backend.services.delivering import Delivering
from backend.services.describing import Allowance
from backend.services.descriptions import Descriptions
from backend.services.drawing import Drawing
from backend.services.exports import Exports
from backend.services.figures import Figures
from backend.services.held import HeldReader
from backend.services.inventory import Inventory
from backend.services.job_figures import JobFigures
from backend.services.jobs import Jobs
from backend.services.labels import Labels
from backend.services.links import LinkReader
from backend.services.lists import Lists
from backend.services.maintenance import Maintenances
from backend.services.measures import Measures
from backend.services.nodes import Nodes
from backend.services.notices import Hub
from backend.services.old_entries import OldEntries
from backend.services.paying import CodecsPaying
from backend.services.peaks import Peaks
from backend.services.people import People
from backend.services.plans import Planner
from backend.services.predicting import Predictor
from backend.services.profiles import Profiles
from backend.services.projects import Projects
from backend.services.races import Races
from backend.services.racing import Racing
from backend.services.retention import Retention
from backend.services.secrets import Secrets
from backend.services.speed_ups import SpeedUps
from backend.services.staleness import StalenessReader
from backend.services.telemetry import Telemetry
from backend.services.vault import Vault, anything_sealed
from backend.services.views import Views
from backend.services.watch import Watch
from backend.services.webhooks import Webhooks
from backend.settings import Settings
from engine import lab
from engine.benchmarks.harness.machine import commit

DELIVERIES_DAYS = 30.0
"""So long a webhook's log goes back."""


def _retentions(database: Database, settings: Settings, turn: Callable[[], bool]) -> list[Watch]:
    """What removes what is old, where that is wanted."""
    watches = [
        OldEntries(database, AuditEntry, settings.audit_days, turn).watch,
        OldEntries(database, Delivery, DELIVERIES_DAYS, turn).watch,
    ]
    if settings.telemetry_days is not None:
        watches.append(Retention(database, settings.telemetry_days, turn).watch)
    return watches


@asynccontextmanager
async def started(settings: Settings, address: str, measures: Measures) -> AsyncIterator[Context]:
    """Everything running; stopped again in reverse order. `address` is where programs on this
    machine reach us; `measures` counts what this server does."""
    async with AsyncExitStack() as stack:
        stack.enter_context(lock.held(settings.data_dir, address))
        stack.enter_context(lock.database_held(settings.url, address))
        database = await asyncio.to_thread(Database, settings.url)
        stack.push_async_callback(asyncio.to_thread, database.close)
        access = await stack.enter_async_context(_admitting(database, settings))
        await asyncio.to_thread(lab.sweep)  # what killed supervisors left while no server ran
        devices = await asyncio.to_thread(take_inventory, settings.cpu_devices, settings.rehearsals)
        executor = make_executor(settings.executor, settings.ray_address)
        membership = await asyncio.to_thread(
            member, database, settings.data_dir, address, devices, executor.files
        )
        inventory = Inventory(database, devices, membership)
        views = Views()
        drawing = Drawing(settings.url, settings.figure_processes)
        stack.push_async_callback(asyncio.to_thread, drawing.close)
        allowed = Allowance(
            seconds=settings.description_seconds, memory_bytes=round(settings.description_gib * 2**30)
        )
        descriptions = await _describing(stack, settings, allowed)
        predictor = Predictor(allowed, lambda: descriptions.forks)
        stack.callback(predictor.close)
        planner = Planner(descriptions, inventory.check, Budgets(predictor))
        peaks = Peaks(planner, predictor)
        hub = Hub(database, views, kept=settings.notices_kept)
        await hub.start()
        stack.push_async_callback(hub.stop)
        # Who looks after no jobs is no member: what one server does for all, it does by itself.
        turn: Callable[[str], bool] = membership.has if settings.scheduler else lambda _role: True
        speed_ups = SpeedUps(database, partial(turn, SPEED_UPS))
        await _begin(stack, speed_ups)
        job_figures = JobFigures(database, views, partial(turn, FIGURES))
        await _begin(stack, job_figures)
        vault = Vault(settings.key_file, partial(anything_sealed, database))
        secrets = Secrets(database, vault)
        scheduler = Scheduler(
            database=database,
            executor=executor,
            inventory=devices,
            membership=membership,
            data_dir=settings.data_dir,
            url=settings.ingest_url or address,
            paused=settings.paused,
            secrets=secrets.opened,
        )
        profiles = Profiles(settings.data_dir / "profiles", database, planner, inventory, scheduler.aside)
        stack.callback(profiles.close)
        if settings.scheduler:
            await _begin(stack, scheduler)
        jobs = Jobs(database, planner, views, executor.files, changed=scheduler.wake, secrets=secrets.check)
        racing = Racing(database, jobs, partial(turn, RACES), partial(membership.check, role=RACES))
        if settings.scheduler:
            for wake in (speed_ups.watch.wake, job_figures.watch.wake, racing.wake):
                membership.listen(wake)
                wake()
            await _begin(stack, racing)
        races = Races(
            database, planner, jobs, drawing, commit=await asyncio.to_thread(commit), changed=racing.wake
        )
        delivering = Delivering(database, vault, settings.reached, partial(turn, WEBHOOKS))
        for watch in (delivering.watch, *_retentions(database, settings, partial(turn, RETENTION))):
            membership.listen(watch.wake)
            await _begin(stack, watch)
        access.begun = True
        yield Context(
            settings=settings,
            access=access,
            people=People(database, access),
            audit=Audit(database),
            webhooks=Webhooks(database, vault, settings.reached),
            secrets=secrets,
            database=database,
            inventory=inventory,
            nodes=Nodes(database, membership),
            maintenance=Maintenances(database, devices, membership, changed=scheduler.wake),
            projects=Projects(database, inventory, changed=scheduler.wake),
            jobs=jobs,
            profiles=profiles,
            peaks=peaks,
            paying=CodecsPaying(planner),
            races=races,
            lists=Lists(database, views),
            labels=Labels(database),
            job_figures=job_figures,
            telemetry=Telemetry(database, views, executor.files),
            links=LinkReader(database),
            staleness=StalenessReader(database),
            checkpoints=CheckpointReader(database, executor.files),
            held=HeldReader(database),
            exports=Exports(database),
            figures=Figures(database, views, drawing, races.verdict_on),
            speed_ups=speed_ups,
            hub=hub,
            views=views,
            measures=measures,
        )


async def _describing(stack: AsyncExitStack, settings: Settings, allowed: Allowance) -> Descriptions:
    """What describes models, until the stack ends."""
    descriptions = Descriptions(settings.data_dir / "cache" / "descriptions", allowed)
    stack.callback(descriptions.close)
    if settings.description_forks:
        await asyncio.to_thread(descriptions.load)
    return descriptions


@asynccontextmanager
async def _admitting(database: Database, settings: Settings) -> AsyncIterator[Access]:
    """Who may come in, also by what other servers change."""
    access = await asyncio.to_thread(Access, database, settings)
    try:
        if access.required and database.shared:
            await asyncio.to_thread(access.watch.start)
        yield access
    finally:
        await asyncio.to_thread(access.close)


class _Runs(Protocol):
    """What has threads of its own."""

    def start(self) -> None: ...

    def close(self) -> None: ...


async def _begin(stack: AsyncExitStack, service: _Runs) -> None:
    """Start it, and end it with the rest."""
    await asyncio.to_thread(service.start)
    stack.push_async_callback(asyncio.to_thread, service.close)
