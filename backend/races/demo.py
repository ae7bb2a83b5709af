"""The race that convinces on any two cores: the demo runs it, and the page offers it to begin with."""

from __future__ import annotations

from dataclasses import replace

from backend import templates
from backend.races.spec import MemberSpec, RaceSpec

RACE = "vgg19-rehearsed"
"""The template whose job is raced."""
ROUNDS, STEPS = 4, 9
"""One round more than usual, of jobs that have three steps less. An interval over four rounds is half as wide as one
over three: for six pairs Student's t asks for 6.2 standard deviations in place of 10.9. A median over three
iterations in place of six makes it 1.4 times as wide again at most (decision 109)."""
SLICE_SIZE = 1_000_000
"""Slices of 50,000 elements, the paper's, are 20 times as many messages. What a message costs these processors is
divided by nothing, unlike sizes and rates, so that they, and not the network, would be measured. A number, because with
`auto` the demo's plans would differ from machine to machine."""


def race(*, lab: bool) -> RaceSpec:
    """The race to submit: on a lab's hosts, or paced in software, which PyTorch's own collectives cannot be."""
    job = templates.load(RACE)
    job = replace(job, training=replace(job.training, steps=STEPS))
    sliced = {"slice_size": SLICE_SIZE}
    members = [
        MemberSpec(strategy="parameter-server"),
        MemberSpec(strategy="p3", options=sliced),
        MemberSpec(strategy="p3+late-multiply", options=sliced),
    ]
    if lab:
        members.append(MemberSpec(strategy="ddp"))
        job = replace(job, network=replace(job.network, hosts=job.cluster.workers))
    return RaceSpec(name="VGG-19 on four hosts", job=job, members=tuple(members), rounds=ROUNDS)
