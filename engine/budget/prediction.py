"""What a choice for each block takes, in bytes and time: for choices that were searched, and for those of a person.

A pass goes through the blocks forward, then backward. What is *kept* stays in between. What is *swapped* leaves while
the next block runs forward, which ends when both have, and comes back while the next block goes backward: so do vDNN's
copies (Rhu et al. 2016, section III), which bounds what is under way. What is swapped *late* comes back when its own
block goes backward, which waits for all of it. Blocks that are *recomputed* together leave the input of the first of
them; before the last of them goes backward, all run forward again, and each lets go what it saved when it went
backward. Each direction of the link to the second tier carries one copy at a time.

Cost: a few operations for each block. It is wrong where blocks do not follow one another, and as far as times are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from engine.budget.blocks import Action, BlockCosts, Chosen
from engine.errors import UserError

SWAP_BEGINS_NS: Final = 20_000
"""Two copies of a block, out and in, begun on a CUDA stream."""


class Prediction(NamedTuple):
    """What a pass takes."""

    peak_bytes: int
    time_ns: int
    forward_bytes: tuple[int, ...]
    """The most that is held while each block runs forward."""
    backward_bytes: tuple[int, ...]
    """The same while it goes backward, with running it again."""
    recomputed_ns: int
    """Of the time, what is computed again."""
    waited_ns: int
    """Of the time, what is waited for copies, and what beginning them takes."""


def copy_ns(moved_bytes: int, bytes_per_second: int) -> int:
    """How long bytes take to or from the second tier."""
    return -(-moved_bytes * 10**9 // bytes_per_second)


def predict(
    blocks: Sequence[BlockCosts],
    chosen: Sequence[Chosen],
    *,
    swap_bytes_per_second: int | None = None,
    swap_begins_ns: int = SWAP_BEGINS_NS,
    held_bytes: int = 0,
) -> Prediction:
    """What `chosen` takes. `swap_bytes_per_second`: of each direction; None: there is no second tier. `swap_begins_ns`:
    what it takes to begin the copies of one block. `held_bytes`: what else is there all the time. Raises UserError for
    a choice that the block, its neighbour or the machine does not permit."""
    _check(blocks, chosen, swap_bytes_per_second)
    held = [held_bytes]
    """Before each block runs forward, without copies under way."""
    forward: list[int] = []
    waited = recomputed = 0
    for at, (block, choice) in enumerate(zip(blocks, chosen, strict=True)):
        action = choice.action
        after_kept = at > 0 and chosen[at - 1].action is Action.KEEP
        leaves = blocks[at - 1].leaving_bytes if at and chosen[at - 1].action is Action.SWAP else 0
        if action is Action.KEEP:
            runs = stays = block.saved_bytes - block.twice_bytes * after_kept
        elif action is Action.SWAP:
            runs, stays = block.saved_bytes, block.saved_bytes - block.leaving_bytes
        else:
            runs = stays = 0 if choice.joined else block.input_bytes - block.shared_bytes * after_kept
            recomputed += block.forward_ns
        forward.append(held[at] + leaves + runs + block.working_bytes)
        held.append(held[at] + stays)
        if action is Action.SWAP:
            assert swap_bytes_per_second is not None
            copy = copy_ns(block.leaving_bytes, swap_bytes_per_second)
            following = blocks[at + 1] if at + 1 < len(blocks) else None
            waited += swap_begins_ns
            ahead = following.backward_ns if following and not choice.late else 0
            for beside in (following.forward_ns if following else 0, ahead):
                waited += max(0, copy - beside)
    backward = [0] * len(blocks)
    again = 0
    """What blocks have saved that were run again and did not go backward yet."""
    for at in reversed(range(len(blocks))):
        block, action = blocks[at], chosen[at].action
        fetched = at > 0 and chosen[at - 1].action is Action.SWAP and not chosen[at - 1].late
        comes = blocks[at - 1].leaving_bytes if fetched else 0
        if action is Action.RECOMPUTE:
            if at + 1 == len(blocks) or not chosen[at + 1].joined:
                again = _saved_again(blocks, chosen, at)
            backward[at] = held[at + 1] + again + comes + block.working_bytes
            again -= block.saved_bytes - (block.twice_bytes if chosen[at].joined else block.saved_input_bytes)
        else:
            away = block.leaving_bytes if action is Action.SWAP else 0
            backward[at] = held[at + 1] + away + comes + block.working_bytes
    time = sum(block.forward_ns + block.backward_ns for block in blocks) + recomputed + waited
    peak = max((held_bytes, *forward, *backward))
    return Prediction(peak, time, tuple(forward), tuple(backward), recomputed, waited)


def _saved_again(blocks: Sequence[BlockCosts], chosen: Sequence[Chosen], last: int) -> int:
    """What the blocks have saved that are computed again together, up to `last`, beside the input of the first."""
    saved, at = 0, last
    while chosen[at].joined:
        saved += blocks[at].saved_bytes - blocks[at].twice_bytes
        at -= 1
    return saved + blocks[at].saved_bytes - blocks[at].saved_input_bytes


def _check(blocks: Sequence[BlockCosts], chosen: Sequence[Chosen], rate: int | None) -> None:
    if len(blocks) != len(chosen):
        raise UserError("choices", len(chosen), f"there are {len(blocks)} blocks", "Choose for each of them")
    for at, (block, choice) in enumerate(zip(blocks, chosen, strict=True)):
        again = choice.action is Action.RECOMPUTE
        if choice.action is Action.SWAP and not rate:
            raise _refused(block, choice, "there is no second tier of memory", "Keep it, or compute it again")
        if choice.late and choice.action is not Action.SWAP:
            raise _refused(block, choice, "only what is swapped comes late", "Swap it")
        if again and not block.recomputable:
            raise _refused(block, choice, "it cannot be computed again", "Keep or swap it")
        if choice.joined and not (again and at and block.joins and chosen[at - 1].action is Action.RECOMPUTE):
            raise _refused(
                block,
                choice,
                "it cannot be computed again together with the block before it",
                "Compute it again by itself",
            )


def _refused(block: BlockCosts, choice: Chosen, rule: str, remedy: str) -> UserError:
    return UserError(f"{block.name}.activations", choice.action.value, rule, remedy)
