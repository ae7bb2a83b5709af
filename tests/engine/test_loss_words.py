"""What is said of lost workers is read again from a job's message."""

from __future__ import annotations

from engine.plan.loss_words import Loss, losses_in


def test_losses_are_read_as_they_were_said() -> None:
    lost = (
        Loss(worker="worker 1", steps=37, why="killed by SIGKILL"),
        Loss(worker="worker 12", steps=0, why="silent for 15 s; its host, too"),
    )
    said = "; ".join(one.text for one in lost)
    assert losses_in(f"The job was finished by the processes that were left: {said}") == lost
    assert losses_in(f"server 0 failed: ValueError: no (exit code 1); {said}") == lost
    assert losses_in("All steps were trained") == ()
    assert losses_in(None) == ()


def test_a_return_is_that_of_the_loss_before_it() -> None:
    said = (
        "worker 1 was lost after 3 steps: killed by SIGKILL; worker 1 joined again at step 4 (incarnation 1);"
        " worker 1 was lost after 7 steps: killed by SIGKILL; worker 2 was lost after 7 steps: silent"
    )
    assert losses_in(said) == (
        Loss(worker="worker 1", steps=3, why="killed by SIGKILL", joined_again=4),
        Loss(worker="worker 1", steps=7, why="killed by SIGKILL"),
        Loss(worker="worker 2", steps=7, why="silent"),
    )
