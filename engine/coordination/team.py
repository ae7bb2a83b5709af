"""A team: the workers that hold the same layers. All of them, or, in a pipeline, those of one stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.plan.cluster import Party
from engine.plan.plan import Plan, Wrapper
from engine.transport.endpoint import Endpoint, Sender
from engine.transport.message import Buffer, Header


class Team:
    """One worker's place among those that hold the same layers; exchanges know the others by their rank in it."""

    def __init__(self, plan: Plan | Wrapper, party: Party, workers: int, endpoint: Endpoint) -> None:
        assert party.rank is not None
        pipeline = plan.pipeline if isinstance(plan, Plan) else None
        stages = 1 if pipeline is None else pipeline.stages
        self.stage = None if pipeline is None else party.rank % stages
        """The stage of the pipeline, if there is one."""
        self.members = range(self.stage or 0, workers, stages)
        """Parties, by rank in the team."""
        self.rank = party.rank // stages
        self.sender: Sender = endpoint if pipeline is None else _ByRank(endpoint, self.members, self.rank)

    @property
    def size(self) -> int:
        return len(self.members)


class _ByRank:
    """An endpoint that knows a team's members by their rank in it, itself included."""

    def __init__(self, endpoint: Endpoint, members: Sequence[int], rank: int) -> None:
        self._endpoint = endpoint
        self._members = members
        self._rank = rank

    @property
    def index(self) -> int:
        return self._rank

    def send(
        self,
        peer: int,
        header: Header,
        payload: Sequence[Buffer] = (),
        on_sent: Callable[[], None] | None = None,
        *,
        hurry: bool = True,
    ) -> None:
        """See Endpoint.send; `peer` is a rank."""
        self._endpoint.send(self._members[peer], header, payload, on_sent, hurry=hurry)

    def nudge(self) -> None:
        """See Endpoint.nudge."""
        self._endpoint.nudge()
