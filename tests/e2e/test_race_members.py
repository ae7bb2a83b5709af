"""Who races, with options, a name and overrides of their own: in Launch, and as one more of a race."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.backend.held_jobs import held_spec
from tests.backend.job_specs import job_spec

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from backend.client import Client

STOP_S = 60.0


def test_a_strategy_races_twice_with_other_options(page: Page, client: Client) -> None:
    before = client.start_race({"job": job_spec("twice"), "members": [{"strategy": "p3"}]})
    client.cancel_race(before.id)
    page.goto(f"/launch?again={before.id}")
    fields = page.get_by_test_id("race-fields")
    expect(fields).to_contain_text("Who races: 1")
    fields.get_by_role("button", name="p3 once more").click()
    expect(fields).to_contain_text("Two are called p3: change an option of one of them, or give it a name")
    second = page.get_by_test_id("race-member-1")
    second.get_by_test_id("field-members.1.options.slice_size").fill("500")
    expect(second).to_contain_text("p3 (slice_size=500)")
    expect(fields).not_to_contain_text("Two are called")
    expect(page.get_by_test_id("can-p3")).to_have_count(2)
    fields.get_by_role("button", name="p3 (slice_size=500) once more").click()
    third = page.get_by_test_id("race-member-2")
    third.get_by_test_id("field-members.2.name").fill("halved")
    overrides = third.get_by_test_id("field-members.2.overrides")
    overrides.get_by_role("button", name="Add").click()
    codec = overrides.get_by_test_id("field-members.2.overrides.0.codec")
    codec.fill("fp16")
    expect(page.get_by_text("12 jobs: 3 strategies in 4 rounds")).to_be_visible()
    page.get_by_test_id("launch").click()
    expect(page.get_by_test_id("race-name")).to_have_text("twice")
    race = client.standings(page.url.rpartition("/")[2])
    client.cancel_race(race.id)
    assert race.members == ["p3", "p3 (slice_size=500)", "halved"]
    plain, sliced, halved = race.spec.members
    assert (plain.options, plain.overrides) == ({}, None), "its own defaults are not sent"
    assert sliced.options == halved.options == {"slice_size": 500}
    assert [one.codec for one in halved.overrides or ()] == ["fp16"]


def test_who_is_removed_takes_no_part_and_a_mistake_is_said_at_its_field(page: Page, client: Client) -> None:
    members = [{"strategy": "p3"}, {"strategy": "p3", "options": {"slice_size": 500}}]
    before = client.start_race({"job": job_spec("one less"), "members": members})
    client.cancel_race(before.id)
    page.goto(f"/launch?again={before.id}")
    fields = page.get_by_test_id("race-fields")
    fields.get_by_role("button", name="Remove p3", exact=True).click()
    left = page.get_by_test_id("race-member-0")
    expect(left).to_contain_text("p3 (slice_size=500)")
    expect(page.get_by_test_id("race-member-1")).to_have_count(0)
    left.get_by_role("button", name="Options of p3 (slice_size=500)").click()
    size = left.get_by_test_id("field-members.0.options.slice_size")
    expect(size).to_have_value("500")
    size.fill("-3")
    page.get_by_test_id("launch").click()
    expect(left).to_contain_text("Must be at least")
    size.fill("900")
    page.get_by_test_id("launch").click()
    expect(page.get_by_test_id("race-name")).to_have_text("one less")
    race = client.cancel_race(page.url.rpartition("/")[2])
    assert race.members == ["p3"]
    assert client.standings(race.id).spec.members[0].options == {"slice_size": 900}


def test_one_more_joins_with_options_though_its_strategy_races(page: Page, client: Client) -> None:
    held = client.submit(held_spec("holds the devices"))  # so that the race goes on
    race = client.start_race({"job": job_spec("one more"), "members": [{"strategy": "p3"}]})
    page.goto(f"/races/{race.id}")
    page.get_by_test_id("another-member").click()
    page.get_by_role("option", name="p3", exact=True).click()
    page.get_by_test_id("add-another").click()
    expect(page.get_by_text("two members are called 'p3'")).to_be_visible()
    page.get_by_test_id("field-members.0.options.slice_size").fill("500")
    page.get_by_test_id("field-members.0.name").fill("small slices")
    page.get_by_test_id("add-another").click()
    expect(page.get_by_text("mlp under p3, small slices")).to_be_visible()
    expect(page.get_by_test_id("field-members.0.name")).to_have_count(0)
    found = client.cancel_race(race.id)
    assert found.members == ["p3", "small slices"]
    assert client.standings(race.id).spec.members[1].options == {"slice_size": 500}
    client.stop(held.id, timeout_s=STOP_S)
