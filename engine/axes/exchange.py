"""Exchange: how do the workers' contributions to one layer meet?

Traits, which the compatibility rules in `engine/plan/layer_rules.py` ask for:
  server     contributions meet in server shards; update on the server or on the worker
  worker     every worker ends with the sum and updates its own replica
  ordered    all ranks must issue their units in one agreed order (native collectives)
  counted    the bytes pass through our transport and are counted there
  sums       it adds whatever workers give it, gradients or differences of parameters
  whole      what travels belongs to a whole layer: it has no slices and no buckets
"""

from engine.catalogue import Axis, Mechanism

EXCHANGE = Axis(
    "exchange",
    "How do the workers' contributions meet?",
    (
        Mechanism(
            name="none",
            summary="Nothing travels: one worker holds the only replica.",
            implementation="engine.exchange.none:NoExchange",
            traits=frozenset({"worker", "counted", "sums"}),
        ),
        Mechanism(
            name="central-reducer",
            summary="One reducer receives every gradient and answers every worker (naive data parallelism).",
            implementation="engine.exchange.server:ServerExchange",
            traits=frozenset({"server", "counted", "sums"}),
        ),
        Mechanism(
            name="parameter-server",
            summary="N shards, each the home of a part of the parameters, beside the workers or dedicated.",
            implementation="engine.exchange.server:ServerExchange",
            traits=frozenset({"server", "counted", "sums"}),
        ),
        Mechanism(
            name="ring-allreduce",
            summary="Scatter-reduce then allgather around a ring: 2 (n-1)/n of the bytes per worker.",
            implementation="engine.exchange.ring_allreduce:RingAllreduce",
            traits=frozenset({"worker", "counted", "sums"}),
        ),
        Mechanism(
            name="tree-allreduce",
            summary="Reduce up a binomial tree, broadcast down: few rounds, more bytes at the root.",
            implementation="engine.exchange.tree_allreduce:TreeAllreduce",
            traits=frozenset({"worker", "counted", "sums"}),
        ),
        Mechanism(
            name="recursive-halving-doubling",
            summary="Scatter-reduce by halving, allgather by doubling: the ring's bytes in 2 log2(n) rounds.",
            implementation="engine.exchange.recursive_halving_doubling:RecursiveHalvingDoubling",
            traits=frozenset({"worker", "counted", "sums"}),
        ),
        Mechanism(
            name="native",
            summary="The backend's own allreduce: Gloo on CPU, NCCL on CUDA.",
            implementation="engine.exchange.native:NativeAllreduce",
            traits=frozenset({"worker", "ordered", "sums"}),
        ),
        Mechanism(
            name="factors",
            summary="Late-multiply: gather inputs X and error derivatives E, multiply after.",
            implementation="engine.exchange.factors:FactorsExchange",
            traits=frozenset({"worker", "counted", "whole"}),
        ),
        Mechanism(
            name="peers",
            summary="Decentralized: workers send updates to one another without a common point.",
            missing="decentralized exchange needs asynchronous consistency, which is not built yet",
            traits=frozenset({"worker", "counted"}),
        ),
    ),
)
