"""A race from its first job to its ranking, as a person watches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from backend.client import Client
from tests.backend.job_specs import job_spec

if TYPE_CHECKING:
    from playwright.sync_api import Page

FINISH_MS = 120_000


def test_a_race_is_watched_to_its_ranking(page: Page, client: Client) -> None:
    members = [{"strategy": name} for name in ("p3", "parameter-server", "ddp")]
    network = {"rate": "1Gbit"}
    race = client.race({"job": job_spec("a race", network=network), "members": members, "rounds": 1})

    page.goto("/races")
    page.get_by_role("link", name="a race").first.click()
    expect(page.get_by_test_id("race-name")).to_have_text("a race")
    expect(page.get_by_test_id("takes-no-part")).to_contain_text("ddp takes no part: network.rate")
    expect(page.get_by_test_id("race-state")).to_have_attribute("data-state", "finished", timeout=FINISH_MS)
    expect(page.get_by_test_id("ranking-sentence")).to_have_text(
        "Too early to tell: 3 rounds are the fewest that prove something (this race has only 1)"
    )
    (ranking,) = client.standings(race.id).rankings
    rows = page.get_by_test_id("standing")
    expect(rows).to_have_count(2)
    for row, standing in zip(rows.all(), ranking.standings, strict=False):
        expect(row).to_contain_text(standing.name)
        expect(row).to_contain_text(f"{standing.iteration_ms:.3g} ms")
    page.get_by_role("link", name="See their steps side by side").click()
    expect(page.get_by_test_id("race-table")).to_contain_text("a race: p3, round 1")


def test_a_race_that_runs_is_cancelled(page: Page, client: Client) -> None:
    spec = job_spec("too long", training={"steps": 100_000, "global_batch": 32})
    race = client.race({"job": spec, "members": [{"strategy": "p3"}, {"strategy": "ring-allreduce"}]})
    page.goto(f"/races/{race.id}")
    expect(page.get_by_test_id("race-progress")).to_contain_text("round 1 of 3, 0 of 6 jobs ended")
    page.get_by_test_id("cancel-race").click()
    page.get_by_test_id("cancel-race-confirm").click()
    expect(page.get_by_test_id("race-state")).to_have_attribute("data-state", "cancelled")
    expect(page.get_by_test_id("cancel-race")).to_have_count(0)
