"""recompute: what a block saves for backward is dropped after forward, and computed again when backward needs it.

Chen et al., "Training deep nets with sublinear memory cost" (2016): of n equal layers in a row, blocks of √n keep one
input each, and one block's activations are there at a time: O(√n) of the memory for at most one more forward pass. Here
√n (rounded) neighbours in an nn.Sequential form a block unless the option `neighbours` says how many are one; any other
block is the largest module all of whose layers ask for it.

In the first run, hooks on what autograd saves put a number in place of each tensor. In a block's first two passes, and
where it goes backward itself (`torch.autograd.grad`), the tensor is there, too, until that run has ended. The first of
these that backward wants starts the second run: on the same arguments (`given.py`), under the same autocast and context
variables, with the same random numbers (`randomness.py`), in the state that the first run found (`rewind.py`). Hooks on
what that saves take the tensors by their numbers; a tensor lives until autograd has taken it. Both runs run as they do
without us: the first one on its caller's own arguments, each to its end. No gate, span or clock takes the second run
for a forward pass. Hooks of a user's own on modules of the block are called in both runs. Under torch.no_grad, in an
evaluation and inside a transform of torch.func a block runs as ever.

In every pass the outputs of the second run must be bitwise those of the first one, by their checksums, on a device that
repeats itself: what depends on anything that is not put back ends the job there, with the layer's name. In a block's
first two passes what it saves is compared, too, and its inputs are copied, in case it writes to them; later, those that
it wrote to are.

Who writes to what a block has saved uncounted, through `.data`, changes no gradient, as he would without us.

Costs a forward pass of the block, two checksums of its outputs and what `rewind.py` says; no bytes move. It loses where
time is shorter than memory, and on layers alone that save little beside their input: a convolution's input is kept in
any case.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from engine.axes.memory_options import RecomputeOptions
from engine.errors import TrainingError
from engine.instrumentation.module_calls import Around
from engine.instrumentation.raw_memory import listen
from engine.memory.given import Given
from engine.memory.mechanism import Block, Site
from engine.memory.outputs import digest, leaves, tensors_in
from engine.memory.randomness import Randomness
from engine.memory.rewind import LEARNING, State
from engine.memory.saving import (
    Stays,
    autocast_now,
    is_plain,
    laid_out_copy,
    memories_of,
    saves,
    stays,
    unmoved,
    version_of,
)
from engine.memory.values import GIVEN_AWAY
from engine.state.told import Again
from engine.user_code import what


class Recompute:
    """On one part of a model."""

    divides = True
    single = False

    def __init__(self, site: Site) -> None:
        self._site = site
        listen(GIVEN_AWAY)

    def around(self, block: Block, options: RecomputeOptions) -> Around:
        """See Mechanism."""
        return _Calls(self._site, block)

    def begin_forward(self, inputs: Any) -> None:
        """See Mechanism."""

    def close(self) -> None:
        """See Mechanism."""


class _Calls:
    """The calls of one block."""

    def __init__(self, site: Site, block: Block) -> None:
        self.site = site
        self.block = block
        self.state = State(block.name, block.modules)
        self.passes = 0
        """That have been computed again."""
        self.again: ref[_Call] | None = None
        """The call that was computed again last, in a graph that is not kept."""
        self.goes_backward = False
        """In its forward pass."""
        self.writes: set[int] = set()
        """Which of the tensors among its arguments it has been seen to write to."""

    def __call__(self, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        passes = self.site.passes
        if not saves(passes):
            return run(*args, **kwargs)
        passes.forward = False  # a block that is called within this one, itself perhaps, is a part of it
        try:
            return _Call(self, run, args, kwargs).first(args, kwargs)
        finally:
            passes.forward = True


class _Saved:
    """In place of a tensor that autograd has saved, which lives as long as autograd has this."""

    __slots__ = ("__weakref__", "first", "number", "tensors")

    def __init__(self, number: int, first: Stays | None) -> None:
        self.number = number
        self.first = first
        """The tensor, until the first run has ended, of a block that may want it until then."""
        self.tensors: dict[int, Stays] = {}
        """What the second run has saved under this number, by the backward pass that wanted it."""


class _Call:
    """One call: its first run, and whatever second runs backward passes want."""

    def __init__(
        self, calls: _Calls, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._calls = calls
        self._run = run
        self._saved: list[ref[_Saved]] = []
        self.shapes: list[tuple[torch.Size, torch.dtype]] = []
        self.values: list[Any] = []
        """Checksums of what was saved, while it is learnt what the block does."""
        self._learning = calls.passes < LEARNING
        self._digest: list[Any] = []
        self._running = False
        """The first run is going on."""
        self._over = False
        """A later call has been computed again, so that this one will not be."""
        self._autocast = autocast_now(calls.site.device)
        self._context = contextvars.copy_context()
        self._randomness = Randomness(calls.site.device)
        self._versions: dict[int, int] = {}
        """Of the inputs that are held themselves, by number."""
        calls.state.look()
        self._given = Given(args, kwargs, calls.state.known, self._held)
        self._before = calls.state.begin(self._given.objects)

    def first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the block."""
        tensors, self._given.tensors = self._given.tensors, []
        self._calls.site.recording.stays(self._calls.block.index, sum(memories_of(tensors).values()))
        found = [self._found(tensor) for tensor in tensors]
        result = self._refusing(args, kwargs)
        for saved in self._saved:
            if (place := saved()) is not None:
                place.first = None
        self._before.end()
        written = {number for number, tensor in enumerate(tensors) if self._found(tensor) != found[number]}
        self._calls.writes |= written
        if written & self._versions.keys():
            raise self._calls.state.refuse(
                "wrote to its input, which it had not done in its first passes: it cannot be computed again"
            )
        self._digest = self._digested(result, args, kwargs, tensors)
        return result

    def _refusing(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._running = True
        try:
            with saved_tensors_hooks(self._pack, self._unpack):
                return self._run(*args, **kwargs)
        except RuntimeError as error:
            if "saved tensor hooks" not in str(error):
                raise
            raise self._calls.state.refuse(
                "uses a transform of torch.func in its forward pass, which permits nobody to have what is saved for"
                " backward there"
            ) from error
        finally:
            self._running = False

    def _held(self, number: int, tensor: Tensor) -> Tensor:
        """An input for the second run: itself, or a copy where the block writes to it, or may write to it."""
        held = tensor.detach()
        if is_plain(tensor) and (self._learning or number in self._calls.writes):
            held = laid_out_copy(held)
        else:
            self._versions[number] = version_of(tensor)
        return held.requires_grad_(tensor.requires_grad)

    def _found(self, tensor: Tensor) -> Any:
        """What changes when an input is written to."""
        return version_of(tensor), digest([tensor]) if self._learning else None

    def _pack(self, tensor: Tensor) -> _Saved:
        wanted = self._learning or self._calls.goes_backward
        saved = _Saved(len(self._saved), stays(tensor) if wanted else None)
        self._saved.append(ref(saved))
        self.shapes.append((tensor.shape, tensor.dtype))
        self.values.append(self.value_of(tensor))
        return saved

    def value_of(self, tensor: Tensor) -> Any:
        """The checksum of a saved tensor. One of whole numbers may be a workspace, which nobody has filled."""
        if not (self._learning and self._calls.site.repeats):
            return None
        told = tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool
        return digest([tensor]) if told else None

    def _unpack(self, saved: _Saved) -> Tensor:
        if self._running:
            self._calls.goes_backward = True
            if saved.first is None:
                raise self._calls.state.refuse(
                    "goes backward in its forward pass, which it had not done in its first passes"
                )
            return unmoved(saved.first)
        task = torch._C._current_graph_task_id()
        if task not in saved.tensors:
            self._again(task)
        return unmoved(saved.tensors.pop(task))

    def _again(self, task: int) -> None:
        """The second run, for a backward pass."""
        calls, site = self._calls, self._calls.site
        if self._over:
            raise calls.state.refuse(
                "cannot be computed again in backward: its graph goes backward a second time, without retain_graph, and"
                " after that of a later pass"
            )
        told = site.recording.recomputing(calls.block.index) if site.passes.backward else nullcontext(Again())
        with told as said, torch.enable_grad(), ExitStack() as surroundings:
            args, kwargs = self._given.again(self._for_second)
            given = list(tensors_in((args, kwargs)))
            again = _Again(self, task, given)
            for autocast in self._autocast:
                surroundings.enter_context(torch.autocast(**autocast))
            surroundings.enter_context(self._randomness.again())
            surroundings.enter_context(self._before.again())
            with saved_tensors_hooks(again.pack, unmoved), self._failing():
                result = self._context.copy().run(self._run, *args, **kwargs)
            made = self._digested(result, args, kwargs, given)
            said.bytes = again.bytes
        calls.passes += 1
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            self._end_before()
        again.check(same=self._digest == made)

    def _end_before(self) -> None:
        """Let go of the state that the call before this found. What is saved in a part of its graph that nobody goes
        backward through would keep that, with the graph of the pass before in it, and so on."""
        before = self._calls.again() if self._calls.again is not None else None
        if before is not None and before is not self:
            before._over = True
            del before._given, before._before
        self._calls.again = ref(self)

    def _for_second(self, number: int, held: Tensor) -> Tensor:
        """An argument of the second run."""
        version = self._versions.get(number)
        if version is not None and version_of(held) != version:
            raise self._calls.state.refuse(
                "cannot be computed again in backward: its input was written to after its forward"
            )
        return laid_out_copy(held) if number in self._calls.writes else held

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except TrainingError:
            raise
        except Exception as error:
            raise self._calls.state.refuse(
                f"failed when it was computed again in backward ({what(error)})"
            ) from error

    def _digested(
        self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Tensor]
    ) -> list[Any]:
        """What was computed: what the block answers with, and tensors that it left where there were others, or none."""
        if not self._calls.site.repeats:
            return []
        known = set(map(id, given))
        left = (*tensors_in((args, kwargs)), *self._before.made())
        return digest((*leaves(result), *(tensor for tensor in left if id(tensor) not in known)))


class _Again:
    """What a second run saves."""

    def __init__(self, call: _Call, task: int, there: Iterable[Tensor]) -> None:
        """`there`: what is in memory in any case."""
        self._call = call
        self._task = task
        self._count = 0
        self._others = False
        """It saves other tensors than the first run."""
        self._same = True
        """They have the same values."""
        self._memories = memories_of(there)
        self._before = sum(self._memories.values())

    def pack(self, tensor: Tensor) -> Stays:
        """Hand a tensor to autograd's place for it."""
        number, saved = self._count, self._call._saved
        self._count += 1
        held = stays(tensor)
        self._memories |= memories_of([tensor])
        if number >= len(saved) or self._call.shapes[number] != (tensor.shape, tensor.dtype):
            self._others = True
            return held
        self._same = self._same and self._call.values[number] == self._call.value_of(tensor)
        if (place := saved[number]()) is not None:
            place.tensors[self._task] = held
        return held

    @property
    def bytes(self) -> int:
        """What is saved, and was not there before."""
        return sum(self._memories.values()) - self._before

    def check(self, *, same: bool) -> None:
        """Raises TrainingError where the two runs do not agree. `same`: in what they have computed."""
        if self._others or self._count != len(self._call._saved):
            raise self._call._calls.state.refuse(
                "saved other tensors for backward when it was computed again: its forward pass went another way"
            )
        if not (same and self._same):
            raise self._call._calls.state.refuse(
                "computed something else when it was computed again in backward: its forward pass depends on more than"
                " its arguments, what its modules and its code come at, and the default random numbers of torch, NumPy"
                " and Python"
            )
