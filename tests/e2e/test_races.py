"""A race from its first job to its ranking, as a person watches it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from backend.client import Client
from tests.backend.held_jobs import NEVER, held_spec
from tests.backend.job_specs import job_spec
from tests.e2e.drawn import Answers, expect_drawn
from tests.e2e.launching import open_section
from tests.e2e.ranked import expect_ranked
from tests.e2e.shown import expect_shown

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page, Route

FINISH_MS = 120_000
BROKEN = """
from torch import nn

class Broken(nn.Sequential):
    def forward(self, batch):
        if self.training and not batch.is_meta:
            raise RuntimeError("broken on purpose")
        return super().forward(batch)

def build():
    return Broken(nn.Flatten(), nn.Linear(64, 10))
"""


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
        "Nobody can tell who is fastest: 1 round is too few, 3 are the fewest that prove something"
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


def test_a_page_that_stays_open_draws_at_a_races_end_what_its_tables_say(page: Page, client: Client) -> None:
    """Where a figure takes long, the page does not ask for it again while it waits for an answer. Here everything that
    it asks while the race runs, but for the first, is never answered."""
    unhurried = held_spec("stays open", at=NEVER, steps=12, pause_s=0.25)
    race = client.start_race(
        {"job": unhurried, "members": [{"strategy": "p3"}], "rates": ["1Gbit", "2Gbit"], "rounds": 1}
    )
    asked: list[Route] = []

    def answer_late(route: Route) -> None:
        asked.append(route)
        if len(asked) == 1 or client.standings(race.id).state != "running":
            route.continue_()

    page.route("**/figures/throughput?*", answer_late)
    answers = Answers(page)
    page.goto(f"/races/{race.id}")
    page.get_by_test_id("panel-race-throughput").scroll_into_view_if_needed()
    expect(page.get_by_test_id("race-state")).to_have_attribute("data-state", "finished", timeout=FINISH_MS)
    expect_drawn(page, "race-throughput", lambda _: answers("throughput"))
    assert len(asked) >= 3, "one that was answered, one that was not, and one at the end"


def test_a_race_ranks_its_members_and_who_joins_later_has_figures_and_no_place(
    page: Page, client: Client
) -> None:
    members = [{"strategy": "p3"}, {"strategy": "parameter-server"}]
    unhurried = held_spec(
        "one joins", at=NEVER, steps=12, pause_s=0.25
    )  # a page shows a race anew every second or so
    race = client.start_race({"job": unhurried, "members": members, "rounds": 3})
    client.wait_for_race(race.id)
    page.goto(f"/races/{race.id}")
    expect(page.get_by_test_id("race-state")).to_have_attribute("data-state", "finished")
    expect_ranked(page, client, race.id, [member["strategy"] for member in members])
    progress = "round 1 of 3, 6 of 9 jobs ended"
    with expect_shown(page, "race-progress", progress, within_ms=FINISH_MS):
        client.join_race(race.id, [{"strategy": "tree-allreduce"}])
    expect(page.get_by_test_id("race-state")).to_have_attribute("data-state", "finished", timeout=FINISH_MS)
    expect(page.get_by_test_id("race-state")).to_have_text("finished")
    last = page.get_by_test_id("standing").last
    expect(last).to_contain_text("tree-allreduce")
    expect(last.get_by_test_id("none").first).to_have_accessible_name(
        re.compile("tree-allreduce joined .* by itself")
    )
    expect(page.get_by_test_id("ranking-sentence")).to_contain_text("tree-allreduce joined")
    expect(page.get_by_text("everybody but tree-allreduce runs once")).to_be_visible()


def test_a_race_whose_jobs_all_failed_leads_to_them(page: Page, client: Client, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    model = {"entrypoint": "broken:build", "directory": str(tmp_path)}
    members = [{"strategy": "p3"}, {"strategy": "parameter-server"}]
    race = client.start_race({"job": job_spec("all fail", model=model), "members": members})
    assert client.wait_for_race(race.id).jobs_failed == 2
    page.goto(f"/races/{race.id}")
    expect(page.get_by_test_id("race-state")).to_have_text("all failed")
    expect(page.get_by_test_id("race-note")).to_have_text(
        "Every job of this race failed: nothing was measured."
    )
    expect(page.get_by_test_id("ranking-sentence")).to_have_text(
        "No member has figures. p3 failed in round 1. parameter-server failed in round 1"
    )
    page.get_by_test_id("lost-job").first.click()
    expect(page).to_have_url(re.compile("/jobs/"))


def test_a_race_that_runs_is_cancelled(page: Page, client: Client) -> None:
    spec = held_spec("too long")
    race = client.start_race({"job": spec, "members": [{"strategy": "p3"}, {"strategy": "ring-allreduce"}]})
    page.goto(f"/races/{race.id}")
    expect(page.get_by_test_id("race-progress")).to_contain_text("round 1 of 4, 0 of 8 jobs ended")
    expect(page.get_by_test_id("delete-race")).to_have_count(0)  # the service would refuse it
    page.get_by_test_id("cancel-race").click()
    page.get_by_test_id("cancel-race-confirm").click()
    expect(page.get_by_test_id("race-state")).to_have_attribute("data-state", "cancelled")
    expect(page.get_by_test_id("cancel-race")).to_have_count(0)


def test_races_that_have_ended_are_deleted_after_asking_and_their_jobs_stay(
    page: Page, client: Client
) -> None:
    held = client.submit(held_spec("holds the devices"))
    members = [{"strategy": "p3"}, {"strategy": "ring-allreduce"}]
    one, other, running = (
        client.start_race({"job": job_spec(name), "members": members}) for name in ("one", "other", "running")
    )
    (job,) = client.jobs(text="one: p3, round 1")
    for race in (one, other):
        client.cancel_race(race.id)

    page.goto(f"/races/{one.id}")
    page.get_by_test_id("delete-race").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("Its jobs stay")
    asked.get_by_role("button", name="Keep it").click()
    expect(asked).to_have_count(0)
    page.get_by_test_id("delete-race").click()
    page.get_by_test_id("delete-race-confirm").click()
    expect(page).to_have_url(re.compile("/races$"))
    expect(page.get_by_role("link", name="other", exact=True).first).to_be_visible()
    expect(page.get_by_role("link", name="one", exact=True)).to_have_count(0)
    expect(page.get_by_test_id(f"delete-{running.id}")).to_have_count(0)
    page.get_by_test_id(f"delete-{other.id}").click()
    page.get_by_test_id("delete-race-confirm").click()
    expect(page.get_by_test_id(f"delete-{other.id}")).to_have_count(0)

    left = {race.id for race in client.races(limit=100).items}
    assert left & {one.id, other.id, running.id} == {running.id}
    assert client.job(job.id).name == job.name
    client.cancel_race(running.id)
    client.stop(held.id, timeout_s=FINISH_MS / 1e3)


def test_what_is_suggested_joins_the_race_or_fills_in_another_one(page: Page, client: Client) -> None:
    """The link is so slow that it limits whoever races there, whatever else this machine does: its largest layer holds
    the others up, and a faster link would help."""
    spec = job_spec("what next", training={"steps": 10, "global_batch": 32})
    members = [{"strategy": "parameter-server"}]
    race = client.start_race(
        {"job": spec, "members": members, "rates": ["500Kbit"], "workers": [2], "rounds": 1}
    )
    client.wait_for_race(race.id)
    fields = page.get_by_test_id("race-fields")

    page.goto(f"/races/{race.id}")
    late, used = (page.get_by_test_id(name) for name in ("best", "another-member"))
    expect(late).to_be_visible()
    below, above = late.bounding_box(), used.bounding_box()
    assert below is not None
    assert above is not None
    assert above["y"] < below["y"], "what comes late moves nothing that one uses"
    page.get_by_role("link", name="Race again with p3").click()
    expect(page.get_by_test_id("field-name")).to_have_value("what next")
    for checked in ("500Kbit", "parameter-server", "p3"):
        expect(fields.get_by_role("checkbox", name=checked, exact=True)).to_be_checked()
    page.go_back()

    held = client.submit(held_spec("holds the devices"))  # who joins waits, and so the race goes on
    expect(page.get_by_test_id("add-member")).to_have_count(0)
    expect(page.get_by_text("is not compared in them: Race again compares all")).to_be_visible()
    page.get_by_test_id("another-member").click()
    page.get_by_role("option", name="tree-allreduce", exact=True).click()
    page.get_by_test_id("add-another").click()
    expect(page.get_by_text("mlp under parameter-server, tree-allreduce")).to_be_visible()
    expect(page.get_by_test_id("add-member")).to_have_text("Let p3 race")
    page.get_by_test_id("add-member").click()
    expect(page.get_by_text("mlp under parameter-server, tree-allreduce, p3")).to_be_visible()
    assert client.cancel_race(race.id).members == ["parameter-server", "tree-allreduce", "p3"]
    client.stop(held.id, timeout_s=FINISH_MS / 1e3)

    page.get_by_role("link", name="Race at 2 Mbit/s").click()
    expect(page.get_by_test_id("field-name")).to_have_value("what next")
    expect(fields.get_by_role("checkbox", name="2Mbit")).to_be_checked()
    expect(fields.get_by_role("checkbox", name="500Kbit")).to_have_count(0)
    expect(fields.get_by_role("checkbox", name="tree-allreduce")).to_be_checked()
    expect(page).to_have_url(re.compile("rate=2Mbit&workers=2"))


def test_a_race_that_waits_says_for_what(page: Page, client: Client) -> None:
    """For a job that holds the devices, and for the race before it."""
    held = client.submit(held_spec("holds the devices"))
    members = [{"strategy": "p3"}, {"strategy": "ring-allreduce"}]
    first, second = (
        client.start_race({"job": held_spec(name), "members": members}) for name in ("first", "second")
    )
    state, progress = page.get_by_test_id("race-state"), page.get_by_test_id("race-progress")
    for name in ("first", "second"):
        page.goto("/races")
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
        expect(row.get_by_test_id("race-state")).to_have_text("waiting")
        row.get_by_role("link").click()
        expect(page.get_by_test_id("race-name")).to_have_text(name)
        expect(state).to_have_text("waiting")
        expect(state).to_have_attribute("data-state", "running")
    expect(progress).to_have_text("Waits for the race 'first'; 0 of 8 jobs ended")
    page.go_back()
    page.go_back()
    expect(progress).to_have_text(
        re.compile("^Waits with its next job: .*'holds the devices'.*; 0 of 8 jobs ended$")
    )
    page.get_by_role("link", name="its job").click()
    expect(page).to_have_url(re.compile("/jobs/"))
    page.goto(f"/races/{second.id}")
    client.cancel_race(first.id)
    client.stop(held.id, timeout_s=FINISH_MS / 1e3)
    expect(progress).to_contain_text("round 1 of 4")
    expect(state).to_have_text("running")
    client.cancel_race(second.id)


def test_the_form_of_a_race_shows_all_that_it_sends(page: Page, client: Client) -> None:
    spec = job_spec("by hand", overrides=[{"layers": "*", "codec": "fp16"}])
    race = client.start_race({"job": spec, "members": [{"strategy": "p3"}]})
    client.cancel_race(race.id)
    page.goto(f"/launch?again={race.id}")
    by_hand = page.get_by_test_id("race-overrides")
    expect(by_hand).to_contain_text("One choice for layers, made by hand, applies to every strategy")
    expect(by_hand).to_contain_text("codec fp16")
    page.get_by_test_id("remove-overrides").click()
    expect(by_hand).to_have_count(0)
    open_section(page, "conditions")
    workers = page.get_by_test_id("race-workers")
    workers.fill("1")
    workers.press("Enter")
    workers.fill("2")
    page.get_by_test_id("race-batches").fill("64")
    page.get_by_test_id("race-beside").check(force=True)  # the switch is drawn over the box
    rate = page.get_by_test_id("another-rate")
    rate.fill("750Mbit, fast")
    page.get_by_test_id("launch").click()  # it starts nothing while a rate is none
    expect(page.get_by_test_id("race-fields")).to_contain_text(
        '"fast" is not a rate from 1 kbit/s to 100 Tbit/s. Write it as 300Mbit or 10Gbit.'
    )
    expect(rate).to_have_value("750Mbit, fast")
    rate.fill("750Mbit, 1000Mbit")
    rate.press("Enter")
    for chosen in ("rate-750Mbit", "rate-1Gbit"):
        expect(page.get_by_test_id(chosen)).to_be_checked()
        page.get_by_test_id(chosen).press("Space")
    expect(page.get_by_test_id("rate-750Mbit")).to_have_count(0)
    expect(page.get_by_test_id("rate-1Gbit")).not_to_be_checked()
    expect(page.get_by_text("with 1, 2 workers, global batches of 64, beside other jobs")).to_be_visible()
    page.get_by_test_id("launch").click()
    expect(page.get_by_test_id("race-name")).to_have_text("by hand")
    started = client.standings(page.url.rpartition("/")[2])
    client.cancel_race(started.id)
    sent = started.spec
    assert (sent.workers, sent.batches, sent.beside, sent.job.overrides) == ((1, 2), (64,), True, ())
