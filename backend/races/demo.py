"""The race that convinces on any two cores: the demo runs it, and the page offers it to begin with."""

from __future__ import annotations

from dataclasses import replace

from backend import templates
from backend.races.spec import MemberSpec, RaceSpec

RACE = "vgg19-rehearsed"
"""The template whose job is raced."""
STEPS = 9
"""Three less than the template's, so that four rounds take no longer than three of its own would. A median over three
iterations in place of six makes an interval 1.4 times as wide at most (decision 109)."""
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
    return RaceSpec(name="VGG-19 on four hosts", job=job, members=tuple(members))
