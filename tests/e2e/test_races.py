"""A race from its first job to its ranking, as a person watches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from backend.client import Client
from tests.backend.job_specs import job_spec

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

FINISH_MS = 120_000


def test_a_race_is_watched_to_its_ranking(page: Page, client: Client) -> None:
    members = [{"strategy": name} for name in ("p3", "parameter-server", "ddp")]
    network = {"rate": "1Gbit"}
    race = client.start_race({"job": job_spec("a race", network=network), "members": members, "rounds": 1})

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
        expect(row).to_contain_text(f"{standing.iteration_ms:.2f} ms")
    with page.expect_download() as download:
        page.get_by_test_id("race-report").click()
    assert download.value.suggested_filename == f"race-{race.id}.html"
    report = download.value.path().read_text()
    assert report.index(ranking.sentence) < report.index("<h2>Ranking") < report.index("<h2>Specification")
    page.get_by_role("link", name="Step by step").click()
    expect(page.get_by_test_id("race-table")).to_contain_text("a race: p3, round 1")


def test_a_race_that_runs_is_cancelled(page: Page, client: Client) -> None:
    spec = job_spec("too long", training={"steps": 100_000, "global_batch": 32})
    race = client.start_race({"job": spec, "members": [{"strategy": "p3"}, {"strategy": "ring-allreduce"}]})
    page.goto(f"/races/{race.id}")
    expect(page.get_by_test_id("race-progress")).to_contain_text("round 1 of 3, 0 of 6 jobs ended")
    page.get_by_test_id("cancel-race").click()
    page.get_by_test_id("cancel-race-confirm").click()
    expect(page.get_by_test_id("race-state")).to_have_attribute("data-state", "cancelled")
    expect(page.get_by_test_id("cancel-race")).to_have_count(0)


def test_what_is_suggested_joins_the_race_or_fills_in_another_one(page: Page, client: Client) -> None:
    """Which suggestions there are is the service's matter; here they are said in its place."""
    race = client.start_race(
        {"job": job_spec("what next"), "members": [{"strategy": "p3"}], "rates": ["1Gbit"]}
    )
    said = [
        {"text": "Let it race", "reason": "it has not", "member": {"strategy": "tree-allreduce"}},
        {"text": "Race at 2 Gbit/s", "reason": "nobody has", "condition": {"rate": "2Gbit"}},
    ]

    def suggest(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        route.fulfill(response=answer, json={**body, "next": said if len(body["members"]) == 1 else said[1:]})

    page.route(f"**/api/v1/races/{race.id}", suggest)
    page.goto(f"/races/{race.id}")
    page.get_by_test_id("add-member").click()
    expect(page.get_by_text("mlp under p3, tree-allreduce")).to_be_visible()
    assert client.cancel_race(race.id).members == ["p3", "tree-allreduce"]
    page.get_by_test_id("race-next").click()
    expect(page.get_by_test_id("field-name")).to_have_value("what next")
    fields = page.get_by_test_id("race-fields")
    expect(fields.get_by_role("checkbox", name="2Gbit")).to_be_checked()
    expect(fields.get_by_role("checkbox", name="1Gbit", exact=True)).not_to_be_checked()
    expect(fields.get_by_role("checkbox", name="tree-allreduce")).to_be_checked()
