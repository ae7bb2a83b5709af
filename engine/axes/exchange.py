"""Exchange: how do the workers' contributions to one layer meet?

Traits, which the rules (`engine/plan/`), the protocol and the runtime ask for:
  nothing    nothing travels, and no worker hears of another
  server     contributions meet in server shards; update on the server or on the worker
  one-shard  there is one shard, and no more
  worker     every worker ends with the sum and updates its own replica
  ordered    all ranks must issue their units in one agreed order (native collectives)
  counted    the bytes pass through our transport and are counted there
  sums       it adds whatever workers give it, gradients or differences of parameters
  encoded    it adds what the codec has made, in the type in which that travels
  factored   the factors of a layer's gradient travel in its place, and each worker multiplies them
  gathered   every worker gets every other's part as it is
  unwaited   every worker adds what others have sent to its own parameters when it comes, and nobody holds the sum
  whole      what travels belongs to a whole layer: it has no slices and no buckets
"""

from dataclasses import dataclass

from engine.catalogue import Axis, Mechanism


@dataclass(frozen=True, kw_only=True)
class Exchange(Mechanism):
    """One way in which contributions meet."""

    rounds: str | None = None
    """`module:attribute` of what workers follow (`engine/plan/rounds.py`). Null: there are no rounds."""


_ROUNDS = "engine.plan.rounds:"

EXCHANGE = Axis(
    "exchange",
    "How do the workers' contributions meet?",
    (
        Exchange(
            name="none",
            summary="Nothing travels: one worker holds the only replica.",
            implementation="engine.exchange.none:NoExchange",
            traits=frozenset({"nothing", "worker", "counted", "sums"}),
        ),
        Exchange(
            name="central-reducer",
            summary="One reducer receives every gradient and answers every worker (naive data parallelism).",
            implementation="engine.exchange.server:ServerExchange",
            traits=frozenset({"server", "one-shard", "counted", "sums"}),
        ),
        Exchange(
            name="parameter-server",
            summary="N shards, each the home of a part of the parameters, beside the workers or dedicated.",
            implementation="engine.exchange.server:ServerExchange",
            traits=frozenset({"server", "counted", "sums"}),
        ),
        Exchange(
            name="ring-allreduce",
            summary="Scatter-reduce then allgather around a ring: 2 (n-1)/n of the bytes per worker.",
            implementation="engine.exchange.ring_allreduce:RingAllreduce",
            rounds=_ROUNDS + "RING",
            traits=frozenset({"worker", "counted", "sums"}),
        ),
        Exchange(
            name="tree-allreduce",
            summary="Reduce up a binomial tree, broadcast down: few rounds, more bytes at the root.",
            implementation="engine.exchange.tree_allreduce:TreeAllreduce",
            rounds=_ROUNDS + "TREE",
            traits=frozenset({"worker", "counted", "sums"}),
        ),
        Exchange(
            name="recursive-halving-doubling",
            summary="Scatter-reduce by halving, allgather by doubling: the ring's bytes in 2 log2(n) rounds.",
            implementation="engine.exchange.recursive_halving_doubling:RecursiveHalvingDoubling",
            rounds=_ROUNDS + "HALVING_DOUBLING",
            traits=frozenset({"worker", "counted", "sums"}),
        ),
        Exchange(
            name="native",
            summary="The backend's own allreduce: Gloo on CPU, NCCL on CUDA.",
            implementation="engine.exchange.native:NativeAllreduce",
            rounds=_ROUNDS + "RING",  # what a backend does by itself: a ring moves the least there is to move
            traits=frozenset({"worker", "ordered", "sums", "encoded"}),
        ),
        Exchange(
            name="factors",
            summary="Late-multiply: gather inputs X and error derivatives E, multiply after.",
            implementation="engine.exchange.factors:FactorsExchange",
            traits=frozenset({"worker", "counted", "whole", "factored", "gathered"}),
        ),
        Exchange(
            name="peers",
            summary="Decentralized: workers send their updates to one another, and add what has come, without a common"
            " point.",
            implementation="engine.exchange.peers:PeersExchange",
            traits=frozenset({"worker", "counted", "unwaited"}),
        ),
    ),
)
