"""From a job's specification to a resolved plan: the one path that the preview and the submission share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backend.scheduler.decide import Kind
from backend.schemas.plans import PlannedLayer, PlanView
from backend.services.asker import Asker
from backend.services.budgets import Budgets
from backend.services.descriptions import Descriptions
from engine import preview
from engine.errors import UserError
from engine.inputs.registry import dataset
from engine.lab import permitted
from engine.models.registry import model
from engine.paying import where_codecs_pay
from engine.plan.budget import Fitted
from engine.plan.cluster import parties
from engine.plan.consistency import averages, drifts
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.paying import Paying
from engine.plan.plan import Consistency, MessageCost, Plan, Servers, Wrapper
from engine.plan.row import Row
from engine.plan.serde import from_plain
from engine.plan.traffic import spread_over_period
from engine.plan.units import cut
from engine.strategies import build_plan, check_options


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A specification with everything that follows from it."""

    spec: JobSpec
    description: ModelDescription
    plan: Plan | Wrapper
    rows: Sequence[Row] | None = None
    """Its table, where that has been made."""
    device: Kind | None = None
    """What its workers compute on here, where that has been looked at."""

    @property
    def placed(self) -> JobSpec:
        """The specification with the device that `auto` comes to here."""
        return self.spec if self.device is None else _placed(self.spec, self.device)


class Planner:
    """Checks specifications and builds their plans."""

    def __init__(
        self, descriptions: Descriptions, check_devices: Callable[[JobSpec], Kind], budgets: Budgets
    ) -> None:
        self._descriptions = descriptions
        self._check_devices = check_devices
        self._budgets = budgets

    def plan(
        self,
        spec: JobSpec,
        asker: Asker | None = None,
        message: MessageCost | None = None,
        *,
        described_anyway: bool = False,
    ) -> Planned:
        """Validate everything that can be known before the job runs. `message`: as `build_plan` takes it.
        `described_anyway`: the model is described to its end also where the asker leaves meanwhile. Raises UserError at
        the field, and Left where the asker is gone.

        Names, options and devices are looked at first: the model's description may take seconds.
        """
        check_options(spec)
        _check_sources(spec)
        kind = self._check_devices(spec)
        _check_lab(spec)
        description = self.describe(spec, None if described_anyway else asker)

        def choose(placed: JobSpec, request: dict[str, Any]) -> Fitted:
            return self._budgets.choose(placed, request, asker)

        plan = build_plan(_placed(spec, kind), description, message, choose=choose)
        check = (lambda: None) if asker is None else asker.check
        rows = preview.rows(plan, description, spec, most=preview.MOST_MESSAGES, check=check)
        return Planned(spec=spec, description=description, plan=plan, rows=rows, device=kind)

    def where_codecs_pay(self, spec: JobSpec, asker: Asker | None = None) -> list[Paying]:
        """Every codec for this job (`engine/paying.py`), after all that `plan` checks. Raises as that does."""
        planned = self.plan(spec, asker)
        check = (lambda: None) if asker is None else asker.check
        placed = _placed(spec, self._check_devices(spec))
        return where_codecs_pay(placed, planned.description, check=check)

    def describe(self, spec: JobSpec, asker: Asker | None = None) -> ModelDescription:
        """What the job's model is on its data. Raises as `plan` does."""
        _check_sources(spec)
        return self._descriptions.describe(spec.model, spec.data, spec.training.precision, asker)


def _placed(spec: JobSpec, kind: Kind) -> JobSpec:
    """The job with the device that `auto` comes to here: rules ask for it."""
    return spec if kind == "rehearsal" else replace(spec, cluster=replace(spec.cluster, device=kind))


def _check_sources(spec: JobSpec) -> None:
    """Refuse options that a model or a data set of ours does not have."""
    if spec.model.name is not None:
        from_plain(model(spec.model.name).options, spec.model.options, "model.options")
    if spec.data.name is not None:
        from_plain(dataset(spec.data.name).options, spec.data.options, "data.options")


def _check_lab(spec: JobSpec) -> None:
    """Refuse hosts that this machine cannot make, before anything is stored."""
    network = spec.network
    if network.hosts is not None and (reason := permitted(latency=network.latency is not None)):
        raise UserError(
            "network.hosts",
            network.hosts,
            f"a lab of several hosts cannot be made here: {reason}",
            "Leave hosts out (rate alone is kept in software), or run the server where it may",
        )


def view(planned: Planned) -> PlanView:
    """A plan as the API shows it."""
    spec, description, plan = planned.spec, planned.description, planned.plan
    by_name = {layer.layer: layer for layer in plan.layers}
    rows = preview.rows(plan, description, spec) if planned.rows is None else list(planned.rows)
    return PlanView(
        strategy=plan.strategy,
        peer=plan.runner if isinstance(plan, Wrapper) else None,
        layers=[PlannedLayer(row=row, plan=by_name[row.layer]) for row in rows],
        servers=plan.servers if isinstance(plan, Plan) else Servers(),
        consistency=plan.consistency if isinstance(plan, Plan) else Consistency(),
        drifts=isinstance(plan, Plan) and drifts(plan.consistency),
        averages=isinstance(plan, Plan) and averages(plan.consistency),
        input=plan.input if isinstance(plan, Plan) else spec.input,
        parties=list(parties(plan, spec.cluster.workers, spec.network.hosts)),
        memory=plan.memory if isinstance(plan, Plan) else None,
        notes=preview.notes(plan, description, spec, rows),
        warnings=list(plan.warnings),
        wire_bytes_per_step=spread_over_period(plan, sum(row.wire_bytes for row in rows))
        if isinstance(plan, Plan)
        else None,
        wire_exact=all(row.wire_exact for row in rows),
        units=len(cut(plan, description)) if isinstance(plan, Plan) else 0,
        parameters=description.parameter_count,
        parameter_bytes=description.parameter_bytes,
        forward_flops=description.forward_flops,
        text=preview.text(plan, description, spec, rows),
    )
