"""`trainyard best`: one command trains a problem under several plans and says which is best."""

from __future__ import annotations

import json
from pathlib import Path

from backend.client import Client
from tests.backend.live_server import LiveServer, run
from tests.backend.test_cli_jobs import _server, trainyard

__all__ = ["_server"]
SEEDS, STEPS = 3, 16


def test_one_command_says_which_plan_is_best(tmp_path: Path) -> None:
    """Nothing is known of who wins: what is printed is what the service answers, of jobs that have trained."""
    page = tmp_path / "best.html"
    asked = ("best", "digits", "--plans", "p3", "--member", "async-sgd:name=async")
    few = (
        "--seeds",
        str(SEEDS),
        "--steps",
        str(STEPS),
        "--set",
        "model.name=mlp",
        "--set",
        "model.options={}",
    )
    with LiveServer(tmp_path / "data", cpu_devices=2, warm_jobs=True) as server:
        told = run(*asked, *few, "--html", str(page), url=server.url)
        assert told.returncode == 0, told.stderr
        race_id = told.stderr.splitlines()[0].removeprefix("race ")
        again = run("best", "--race", race_id, "--json", url=server.url)
        full = run("best", "--race", race_id, "--html", "/dev/full", url=server.url)
        with Client(server.url) as client:
            race = client.standings(race_id)
            jobs = [client.job(job_id) for job_id in race.rankings[0].standings[0].job_ids]
    best = json.loads(again.stdout)
    assert (best["state"], best["score"], best["seeds"]) == ("finished", "accuracy", SEEDS)
    assert [job.spec.training.seed for job in jobs] == [1, 2, 3]
    (found,) = best["conditions"]
    lines = told.stdout.splitlines()
    assert lines[0] == "Which plan is best: digits: finished, 3 seeds"
    assert found["sentence"] in lines
    for criterion in found["criteria"]:
        assert f"   {criterion['verdict']}." in lines
    # How many were evaluated in the time of the fastest is the machine's matter.
    named = {one["name"]: {place["name"] for place in one["places"]} for one in found["criteria"]}
    assert named.pop("in_time") in ({"p3"}, {"async"}, {"p3", "async"})
    assert named == {name: {"p3", "async"} for name in ("speed", "attained", "in_samples")}
    assert [one["rounds"] for one in found["criteria"] if one["name"] != "in_time"] == [SEEDS] * 3
    for curve in found["curves"]:
        steps = [point["step"] for point in curve["points"]]
        assert steps == [3, 6, 9, 12, 15, STEPS], "and at the end"
        assert all(point["sent_bytes"] > 0 for point in curve["points"])
        assert [point["samples"] for point in curve["points"]][-1] == STEPS * 64
    assert page.read_text().count("<svg") >= 4, "steps, samples, bytes and seconds"
    assert (full.returncode, full.stdout) == (2, told.stdout), "the answer, though its file cannot be written"
    assert f"trainyard best --race {race_id}" in full.stderr


def test_what_cannot_be_asked_is_refused_with_the_remedy(tmp_path: Path) -> None:
    for args, words in (
        ((), "PROBLEM"),
        (("digit",), "Did you mean 'digits'"),
        (("digits", "--race", "0123"), "would begin another"),
        (("digits", "--member", "p3:slice"), "is no option=value"),
        (("digits", "--plans", "p4"), "p3"),
        (("digits", "--seeds", "0"), "at least 3"),
        (("digits", "--seeds", "2"), "at least 3"),
        (("digits", "--plans", "p3"), "--plans = 'p3'\n  rule:   is one plan"),
        (("digits", "--member", "p3:slice_size=5"), "--member = 'p3:slice_size=5'\n  rule:   is one plan"),
        (("digits", "--set", "fidelity=rehearse"), "a rehearsal learns nothing"),
        (("digits", "--html", str(tmp_path / "none" / "best.html")), "Make the folder"),
        (("--race", "0123", "--html", str(tmp_path)), "is a folder"),
    ):
        told = trainyard("best", *args)
        assert told.exit_code == 2
        assert words in told.stderr
