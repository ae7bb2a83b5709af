"""Which plan of a race is best, over HTTP: what jobs have recorded, by criteria, curves and report."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backend.services.racing import Racing
from tests.backend.posted_run import SAMPLES, STEP_MS, STEPS, end_attempt, record_steps, start_attempt
from tests.backend.raced_jobs import SLOWER, next_job, run, submit

SCORES = {"p3": 0.6, "parameter-server": 0.8}
"""After 16 steps of 20, from the first seed; each further one attains a hundredth more, and is 0.2 worse after 8."""


def trained(api: TestClient, racing: Racing, race: dict[str, Any], directory: Path) -> list[int]:
    """All jobs of a race to their ends; their seeds in order."""
    seeds = []
    while (job_id := next_job(api, racing, race)) is not None:
        job = api.get(f"/api/v1/jobs/{job_id}").json()
        seed = job["spec"]["training"]["seed"]
        seeds.append(seed)
        score = SCORES[job["strategy"]] + 0.01 * seed
        posted = start_attempt(api, job_id, directory / job_id)
        record_steps(
            posted, slower=SLOWER[job["strategy"]], before={8: score - 0.2, 16: score},
            beside={"test_accuracy": score - 0.05},
        )  # fmt: skip
        posted.post_all(api)
        end_attempt(api, posted)
    return seeds


def asked(api: TestClient, race: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/api/v1/races/{race['id']}/best").json()
    return found


def test_a_race_says_which_plan_is_best_by_each_criterion(
    api: TestClient, racing: Racing, tmp_path: Path
) -> None:
    race = submit(api, "p3", "parameter-server", reseed=True)
    before = asked(api, race)
    assert before["seeds"] == 0, "none that ran"
    (empty,) = before["conditions"]
    assert {one["verdict"] for one in empty["criteria"]} == {"No plan has a figure yet"}
    seeds = trained(api, racing, race, tmp_path)
    assert seeds == [0, 0, 1, 1, 2, 2], "of a round both have one"
    best = asked(api, race)
    assert (best["state"], best["score"], best["seeds"]) == ("finished", "accuracy", 3)
    (found,) = best["conditions"]
    speed, attained, in_time, in_samples = found["criteria"]
    assert (speed["best"], speed["places"][1]["behind"]) == (["p3"], pytest.approx(3))
    assert attained["best"] == ["parameter-server"]
    assert attained["places"][0]["value"] == pytest.approx(0.81), "after 16 steps, and not at the end"
    assert (
        attained["verdict"]
        == "parameter-server is best: p3 is behind by 20.00 points (18.99 points to 21.01 points)"
    )
    # p3 has ended when the slower one was evaluated for the first time.
    end_s = STEPS * STEP_MS[0] / 1e3
    assert in_time["at"] == f"{end_s:.1f} s, when the first run had ended"
    assert [one["name"] for one in in_time["places"]] == ["p3"]
    assert "parameter-server is not compared: it had not been evaluated by then" in in_time["verdict"]
    assert (in_samples["best"], in_samples["rounds"]) == (["parameter-server"], 3)
    assert in_samples["places"][0]["value"] == pytest.approx(0.76), "at the end"
    assert found["sentence"].startswith("fastest: p3; highest accuracy attained: parameter-server; ")
    assert [point["step"] for point in found["curves"][1]["points"]] == [8, 16, STEPS - 1]
    first = found["curves"][0]["points"][0]
    assert first["samples"] == 8 * 2 * SAMPLES
    assert first["seconds"] == pytest.approx(8 * STEP_MS[0] / 1e3)
    assert first["score"] == pytest.approx(0.41)
    # Each worker sends 1000 bytes in the first half of its step, and the second one has steps of 50 ms.
    assert first["sent_bytes"] == pytest.approx(8 * 1000 + (6 + 0.4 / 0.5) * 1000)
    assert first["low"] < 0.41 < first["high"]
    assert not any("one seed" in note for note in found["notes"])
    address = f"/api/v1/races/{race['id']}/figures/learning"
    drawn = api.get(address, params={"by": "time"})
    assert drawn.status_code == 200
    assert "parameter-server: 76.00 % (" in drawn.json()["layout"]["meta"]["alt"]
    assert (
        api.get(address, headers={"If-None-Match": drawn.headers["ETag"]}, params={"by": "time"}).status_code
        == 304
    )
    refused = api.get(address, params={"condition": 1})
    assert (refused.status_code, refused.json()["errors"][0]["remedy"]) == (422, "Use 0")


def test_a_report_holds_the_answer_where_jobs_were_evaluated(
    api: TestClient, racing: Racing, tmp_path: Path
) -> None:
    race = submit(api, "p3", "parameter-server", rounds=1)
    trained(api, racing, race, tmp_path)
    (found,) = asked(api, race)["conditions"]
    assert found["criteria"][1]["verdict"].startswith("Too few to tell (1 seed; 3 are the fewest")
    assert any("All rounds have one seed" in note for note in found["notes"])
    page = api.get(f"/api/v1/races/{race['id']}/report").text
    assert "Which plan is best" in page
    assert "Best accuracy for a given time" in page
    assert api.get("/api/v1/races/nobody/best").status_code == 404


def test_who_takes_no_part_is_named_and_the_others_are_compared(
    api: TestClient, racing: Racing, tmp_path: Path
) -> None:
    race = submit(api, "p3", "ddp", rates=["100Mbit"], reseed=True)
    run(api, racing, race, tmp_path)
    (found,) = asked(api, race)["conditions"]
    assert any(note.startswith("ddp takes no part: ") for note in found["notes"])
    assert found["criteria"][0]["verdict"].startswith("Nobody to compare with: p3")
    assert found["criteria"][0]["verdict"].endswith(". ddp is not compared: it is out of the race")


def test_a_loss_that_is_no_number_is_an_evaluation_all_the_same(
    api: TestClient, racing: Racing, tmp_path: Path
) -> None:
    race = submit(api, "p3", "parameter-server", reseed=True)
    while (job_id := next_job(api, racing, race)) is not None:
        job = api.get(f"/api/v1/jobs/{job_id}").json()
        wild = job["strategy"] == "p3" and job["spec"]["training"]["seed"] == 1
        posted = start_attempt(api, job_id, tmp_path / job_id)
        record_steps(posted, before={8: 0.5, 16: math.nan if wild else 0.6}, beside={"test_accuracy": 0.7})
        posted.post_all(api)
        end_attempt(api, posted)
    (found,) = asked(api, race)["conditions"]
    for one in found["criteria"][1:]:
        assert [place["name"] for place in one["places"]] == ["parameter-server"]
        assert one["verdict"].endswith(". p3 is not compared: it diverged")
    assert "p3 diverged in 1 of 3 runs: its test accuracy was no finite number" in found["notes"]
    assert [[point["step"] for point in curve["points"]] for curve in found["curves"]] == [
        [8], [8, 16, STEPS - 1]
    ]  # fmt: skip
