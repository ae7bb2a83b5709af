"""through-time: a recurrent layer runs piece by piece, and few of the states between its pieces are stored.

Gruslys et al., "Memory-efficient backpropagation through time" (2016), which papers 002 name for sequences. The layer
is called on `piece_steps` steps of its sequence at a time. Which states stay, and of which pieces all that backward
needs, says the dynamic program of `engine/budget/sequence.py` for the slots that there are; everything else is computed
again when backward needs it. The whole is one node of autograd's graph.

Gradients are bitwise those of the same pieces with everything stored: each piece runs with gradients wanted in all of
its runs, as what PyTorch calls may go another way without, and the parameters' gradients are summed from the last piece
to the first. With pieces of one step these are those of a plain loop over the steps; with longer ones, autograd sums
within each piece first. (Another cut is another order of summation: a layer that is called on the whole sequence may
differ in the last bits.)

Costs what `Sequence.cost` says in runs of a piece. Stored are the input, the output and the chosen states. It loses
where one library call runs the whole sequence much faster than pieces, as cuDNN does.

Refused: layers other than nn.LSTM, nn.GRU and nn.RNN; those that go in both directions, which have no state between two
pieces; dropout between layers, whose numbers would be drawn for each piece; packed sequences; hooks on the module and
another forward than its class's, which would run for each piece and again in backward; hooks on the parameters'
gradients, of which each piece has one (those that run when a gradient has been accumulated are called once, as ever);
weights that are made of other tensors before a call, which backward would not find again; a checkpoint of the model's
own around the call; a derivative of the derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.weight_norm import WeightNorm

from engine.axes.memory_options import ThroughTimeOptions
from engine.budget.instructions import Back, Hold, Instruction, Run, Save
from engine.budget.sequence import Sequence
from engine.errors import TrainingError, UserError
from engine.instrumentation.module_calls import Around
from engine.memory.mechanism import Block, Site
from engine.memory.saving import all_unmoved, autocast_now, in_a_checkpoint, memories_of, saves

_KINDS = (nn.LSTM, nn.GRU, nn.RNN)
_REMEDY = "choose something else for its activations"
State = tuple[Tensor, ...]
Gradients = list[Tensor | None]


class ThroughTime:
    """On one part of a model."""

    divides = False
    single = True

    def __init__(self, site: Site) -> None:
        self._site = site

    def around(self, block: Block, options: ThroughTimeOptions) -> Around:
        """See Mechanism. Raises UserError for what is no recurrent layer that can be cut."""
        (layer, *others) = block.modules
        if others or type(layer) not in _KINDS:
            raise _refused(block, "is no nn.LSTM, nn.GRU or nn.RNN", "Ask it of such layers only")
        assert isinstance(layer, nn.RNNBase)
        if layer.bidirectional:
            raise _refused(
                block, "goes in both directions, so that it has no state between two pieces", "Recompute it"
            )
        if layer.dropout and layer.num_layers > 1:
            raise _refused(block, "drops out between its layers, piece by piece", "Use layers of one each")
        return _Calls(self._site, block, layer, options)

    def begin_forward(self, inputs: Any) -> None:
        """See Mechanism."""

    def close(self) -> None:
        """See Mechanism."""


def _refused(block: Block, rule: str, remedy: str) -> UserError:
    return UserError(f"layers.{block.name}.activations", "through-time", f"the layer {rule}", remedy)


class _Calls:
    """The calls of one layer."""

    def __init__(self, site: Site, block: Block, layer: nn.RNNBase, options: ThroughTimeOptions) -> None:
        self.site = site
        self.block = block
        self.layer = layer
        self.options = options
        self._own = {id(parameter) for parameter in layer.parameters()}
        self.plans: Sequence | None = None
        """For the most pieces that there were so far, and for all fewer."""

    def __call__(self, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        passes = self.site.passes
        if passes.forward:
            self._refuse_checkpoint()
        if not saves(passes):
            return run(*args, **kwargs)
        self._refuse_hooks()
        self._refuse_made_weights()
        inputs, state = _arguments(*args, **kwargs)
        if not isinstance(inputs, Tensor):
            raise TrainingError(
                f"{self.block.name} is given a {type(inputs).__name__}, which cannot be cut into pieces of time. Give"
                " it a tensor, or choose something else for its activations"
            )
        passes.forward = False  # what is called within is a part of this
        try:
            passed = _Pass(self, run, inputs)
            start = passed.as_state(state) if state is not None else ()
            out, *last = _Layer.apply(passed, len(start), inputs, *start, *passed.parameters)
        finally:
            passes.forward = True
        return out, passed.as_answered(tuple(last))

    def _refuse_hooks(self) -> None:
        """Looked for in each call: a hook may come and go. That of weight_norm makes the weights, for each piece."""
        layer = self.layer
        before = [h for h in layer._forward_pre_hooks.values() if not isinstance(h, WeightNorm)]
        if before or layer._forward_hooks or layer._backward_hooks or layer._backward_pre_hooks:
            raise TrainingError(
                f"{self.block.name} has hooks, which through-time would call for each piece of time, and again in"
                f" backward. Put what they do into a module around the layer, or {_REMEDY}"
            )
        if "forward" in vars(layer):
            raise TrainingError(
                f"{self.block.name} has a forward in place of its class's, which through-time would call for each piece"
                f" of time, and again in backward. Put what it does into a module around the layer, or {_REMEDY}"
            )
        self.refuse_gradient_hooks()

    def refuse_gradient_hooks(self) -> None:
        """Before backward, too: one that has come since would be called for each piece in this very pass."""
        if any(parameter._backward_hooks for parameter in self.layer.parameters()):
            raise TrainingError(
                f"{self.block.name} has a parameter with a hook on its gradient, which through-time would call for"
                f" each piece of time, and again for their sum. Use register_post_accumulate_grad_hook, or {_REMEDY}"
            )

    def _refuse_made_weights(self) -> None:
        """They are in the layer for this call, and their graph ends where a piece's does."""
        layer = self.layer
        normed = {hook.name for hook in layer._forward_pre_hooks.values() if isinstance(hook, WeightNorm)}
        made = [
            name
            for names in layer._all_weights
            for name in names
            if name not in normed and id(getattr(layer, name)) not in self._own
        ]
        if made:
            raise TrainingError(
                f"{self.block.name} runs with a {made[0]} that is not its own parameter: it was made of something"
                " else, to which through-time would give no gradient, and which may be another one in backward. Leave"
                " the layer its parameters, or choose something else for its activations"
            )

    def _refuse_checkpoint(self) -> None:
        """It compares what a call saves with what the second one does, which is not in pieces."""
        if in_a_checkpoint():
            raise TrainingError(
                f"{self.block.name} runs within a checkpoint of the model's own (torch.utils.checkpoint), which would"
                " compute all of its sequence again. Call it outside of that, or choose something else for its"
                " activations"
            )

    def program(self, pieces: int) -> Iterator[Instruction]:
        """For so many pieces. Raises TrainingError where there are too many."""
        if self.plans is None or self.plans.steps < pieces:
            try:
                self.plans = Sequence(pieces, self.options.slots, internal=self.options.piece_slots)
            except UserError as error:
                raise TrainingError(f"{self.block.name} has {pieces:,} pieces of time: {error}") from None
        return self.plans.program(steps=pieces)


def _arguments(input: Any, hx: Any = None) -> tuple[Any, Any]:
    """As PyTorch's recurrent layers take them."""
    return input, hx


class _Pass:
    """One call of the layer: its pieces, forward and backward."""

    def __init__(self, calls: _Calls, run: Callable[..., Any], inputs: Tensor) -> None:
        layer = calls.layer
        self._calls = calls
        self._run = run
        self._autocast = autocast_now(calls.site.device)
        self.name = calls.block.name
        self.parameters = [parameter for parameter in layer.parameters() if parameter.requires_grad]
        self.frozen = [parameter for parameter in layer.parameters() if not parameter.requires_grad]
        self._time = 1 if layer.batch_first and inputs.dim() == 3 else 0
        """The dimension of the steps."""
        self._pieces = inputs.detach().split(calls.options.piece_steps, self._time)
        self._start: State = ()
        self._wanted = [False]
        """Whether inputs, and each tensor of the start, want gradients."""
        self._program = calls.program(len(self._pieces))
        self._states: dict[int, State] = {}
        self._saved: dict[int, _Ran] = {}
        self._hand: tuple[int, State] | None = None
        self._outputs: list[Tensor] = []
        """Of the first run of each piece."""
        self._next: int | None = None
        """The piece that goes backward next; None: all have."""

    def as_state(self, answered: Any) -> State:
        """The tensors of a state as the layer takes and answers it."""
        return tuple(answered) if isinstance(self._calls.layer, nn.LSTM) else (answered,)

    def as_answered(self, state: State) -> Any:
        """The inverse."""
        return state if isinstance(self._calls.layer, nn.LSTM) else state[0]

    def forward(self, start: State, wanted: list[bool]) -> tuple[Tensor, ...]:
        """The layer's output, and its last state."""
        self._start, self._wanted = start, wanted
        self._next = self._advance()
        assert self._hand is not None
        found = torch.cat(self._outputs, self._time), *self._hand[1]
        states = [tensor for state in self._states.values() for tensor in state]
        site, index = self._calls.site, self._calls.block.index
        site.recording.stays(index, sum(memories_of([*self._pieces, found[0], *states]).values()))
        self._outputs.clear()
        return found

    def backward(self, of_out: Tensor | None, of_last: Gradients) -> tuple[Gradients, Gradients]:
        """The gradients of inputs and start, and those of the parameters, of those of the output and the last state."""
        if self._next is None:
            raise TrainingError(
                f"{self.name} goes backward a second time, and its states are gone. Choose something else"
                " for its activations"
            )
        self._calls.refuse_gradient_hooks()
        lengths = [piece.shape[self._time] for piece in self._pieces]
        parts: Gradients = [None] * len(lengths)
        if of_out is not None:
            parts = list(of_out.split(lengths, self._time))
        of_inputs: list[Tensor] = []
        of_parameters: Gradients = [None] * len(self.parameters)
        of_state = of_last
        with ExitStack() as surroundings:
            for autocast in self._autocast:
                surroundings.enter_context(torch.autocast(**autocast))
            while self._next is not None:
                piece = self._next
                of_input, of_state, more = self._back(piece, parts[piece], of_state)
                of_inputs.append(torch.zeros_like(self._pieces[piece]) if of_input is None else of_input)
                for at in range(len(more)):  # each is dropped once it is in its sum
                    of_parameters[at], more[at] = _sum(of_parameters[at], more[at]), None
                self._next = self._advance(again=True)
        self._pieces, self._start = (), ()  # whoever keeps the output has this
        of_input = torch.cat(of_inputs[::-1], self._time) if self._wanted[0] else None
        return [of_input, *of_state], of_parameters

    def _advance(self, *, again: bool = False) -> int | None:
        """Follow the program up to the next piece that goes backward."""
        for step in self._program:
            if isinstance(step, Back):
                return step.stage
            if isinstance(step, Hold):
                assert self._hand is not None
                self._states[step.state] = self._hand[1]
                continue
            recording: AbstractContextManager[object] = (
                self._calls.site.recording.recomputing(self._calls.block.index) if again else nullcontext()
            )
            with recording, torch.enable_grad():
                self._follow(step, again=again)
        return None

    def _follow(self, step: Run | Save, *, again: bool) -> None:
        for piece in range(step.start, step.stop) if isinstance(step, Run) else (step.stage,):
            ran = self._ran(piece)
            if not again:
                self._outputs.append(ran.out.detach())
            if isinstance(step, Save):
                self._saved[piece] = ran
            self._hand = piece + 1, tuple(tensor.detach() for tensor in ran.after)

    def _ran(self, piece: int) -> _Ran:
        wanted = self._wanted[1:] if piece == 0 else [True] * len(self._before(piece))
        inputs = self._pieces[piece].detach().requires_grad_(self._wanted[0])
        before = tuple(
            tensor.detach().requires_grad_(want)
            for tensor, want in zip(self._before(piece), wanted, strict=True)
        )
        out, after = self._run(inputs, self.as_answered(before)) if before else self._run(inputs)
        return _Ran(inputs, before, out, self.as_state(after))

    def _before(self, piece: int) -> State:
        """The state that a piece begins with, wherever it is."""
        if piece == 0:
            return self._start
        if piece in self._states:
            return self._states[piece]
        if piece - 1 in self._saved:
            return self._saved[piece - 1].after
        assert self._hand is not None
        assert self._hand[0] == piece
        return self._hand[1]

    def _back(
        self, piece: int, of_out: Tensor | None, of_after: Gradients
    ) -> tuple[Tensor | None, Gradients, Gradients]:
        ran = self._saved.pop(piece)
        self._states.pop(piece, None)
        self._hand = None
        made = [
            (tensor, gradient)
            for tensor, gradient in zip((ran.out, *ran.after), (of_out, *of_after), strict=True)
            if gradient is not None and tensor.requires_grad
        ]
        given = [ran.inputs, *ran.before, *self.parameters]
        wanted = [tensor for tensor in given if tensor.requires_grad]
        outputs, of_outputs = [tensor for tensor, _ in made], [gradient for _, gradient in made]
        found: Gradients = [None] * len(wanted)
        if made and wanted:
            found = list(torch.autograd.grad(outputs, wanted, of_outputs, allow_unused=True))
        each = iter(found)
        of_given = [next(each) if tensor.requires_grad else None for tensor in given]
        states = 1 + len(ran.before)
        return of_given[0], of_given[1:states], of_given[states:]


class _Ran(NamedTuple):
    """A run of one piece, with the graph between what it was given and what it made."""

    inputs: Tensor
    before: State
    out: Tensor
    after: State


class _Layer(torch.autograd.Function):
    """The layer as one node."""

    @staticmethod
    def forward(ctx: Any, passed: _Pass, states: int, inputs: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        ctx.passed = passed
        ctx.set_materialize_grads(False)
        start = others[:states]
        # Nothing of it is held for longer: autograd counts who writes to it, frozen parameters included.
        ctx.save_for_backward(inputs, *others, *passed.frozen)
        return passed.forward(start, list(ctx.needs_input_grad[2 : 3 + states]))

    @staticmethod
    def backward(ctx: Any, of_out: Tensor | None, *of_last: Tensor | None) -> Any:
        if torch.is_grad_enabled():  # create_graph: nothing here would be in that graph
            raise TrainingError(
                f"{ctx.passed.name} is differentiated twice, and through-time has only the first derivative. Choose"
                " something else for its activations"
            )
        all_unmoved(ctx)
        of_given, of_parameters = ctx.passed.backward(of_out, list(of_last))
        return None, None, *of_given, *of_parameters


def _sum(total: Tensor | None, more: Tensor | None) -> Tensor | None:
    """In place, so that there is no third one beside these two. The first is a copy, as a kernel may give one tensor as
    the gradient of two parameters."""
    if more is None:
        return total
    return more.clone() if total is None else total.add_(more)
