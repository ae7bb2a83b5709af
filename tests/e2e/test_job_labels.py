"""What people do with a long list of jobs: put it in order, tag what they know, group it, keep a filter."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.backend.held_jobs import held_spec
from tests.backend.job_specs import job_spec

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_a_click_on_a_columns_head_sorts_by_it(page: Page, recorded: list[str]) -> None:
    baseline, p3 = recorded
    page.goto("/jobs?text=recorded")
    expect(page.get_by_test_id(f"job-row-{p3}")).to_be_visible()
    head = page.get_by_test_id("sort-name")
    for address, order in (
        ("sort=name$", [p3, baseline]),
        ("sort=-name$", [baseline, p3]),
        ("text=recorded$", None),
    ):
        head.click()
        expect(page).to_have_url(re.compile(address))
        if order:
            above, below = (f"[data-testid=job-row-{job}]" for job in order)  # others may stand between
            expect(page.locator(f"{above} ~ {below}")).to_be_visible()
    expect(page.get_by_test_id(f"job-row-{p3}").locator("td[data-label=Took]")).to_contain_text("s")


def test_a_job_is_tagged_found_by_its_tag_and_the_filter_is_kept(page: Page, client: Client) -> None:
    long = job_spec("to be tagged", training={"steps": 9_999, "global_batch": 32})
    job = client.stop(client.submit(long).id, timeout_s=120)
    page.goto(f"/jobs/{job.id}")
    page.get_by_test_id("edit-labels").click()
    field = page.get_by_test_id("field-tags")
    field.fill("<b>odd</b>")
    field.press("Enter")
    page.get_by_test_id("field-note").fill("first line\nsecond line")
    page.get_by_test_id("keep-labels").click()
    expect(page.get_by_test_id("note")).to_have_text("first line\nsecond line")
    assert client.job(job.id).tags == ["<b>odd</b>"]

    page.get_by_test_id("tag-<b>odd</b>").click()
    expect(page.get_by_test_id("jobs-count")).to_have_text("1 job")
    expect(page.get_by_test_id(f"job-row-{job.id}")).to_be_visible()
    page.get_by_test_id("saved-filters").click()
    page.get_by_test_id("save-filter-name").fill("my odd ones")
    page.get_by_test_id("save-filter").click()
    page.goto("/jobs?group=tag")
    page.get_by_test_id("group-<b>odd</b>").click()
    expect(page.get_by_test_id(f"job-row-{job.id}")).to_be_visible()
    expect(page.get_by_test_id("jobs-count")).to_have_text("1 job")
    page.get_by_test_id("saved-filters").click()
    page.get_by_test_id("saved-my odd ones").click()
    expect(page).to_have_url(re.compile("/jobs\\?tag="))
    client.delete(job.id)
    expect(page.get_by_test_id("jobs-empty")).to_be_visible()


def test_a_specification_is_shown_as_it_can_be_submitted_again(
    page: Page, client: Client, recorded: list[str]
) -> None:
    page.goto(f"/jobs/{recorded[1]}?tab=spec")
    spec = page.get_by_test_id("spec")
    expect(spec).to_have_text(client.specification(recorded[1]))
    page.get_by_test_id("spec-form").get_by_text("JSON").click()
    page.get_by_test_id("spec-part").get_by_text("Everything").click()
    expect(spec).to_have_text(client.specification(recorded[1], form="json", whole=True))


def test_devices_say_who_holds_them_and_what_waits_for_what(page: Page, client: Client) -> None:
    holder = client.submit(held_spec("holds both"))
    page.goto("/devices")
    expect(page.get_by_test_id("device-cpu:0")).to_contain_text("holds both")
    expect(page.get_by_test_id("free-cpu")).to_have_text("0 of 2 free")
    expect(page.get_by_role("region", name="node ")).to_contain_text("Free: 0 of 2 CPU slots")
    expect(page.get_by_role("button", name="Drain ")).to_be_visible()
    waiting = client.submit(held_spec("waits for them"))
    row = page.get_by_test_id(f"waiting-{waiting.id}")
    expect(row).to_contain_text("2 CPU slots")
    expect(row).to_contain_text("next in the queue: needs 2 CPU devices, 0 of 2 are free; 'holds both' holds")
    with page.expect_download() as download:
        page.get_by_test_id("queue").get_by_test_id("table-csv").click()
    assert "waits for them" in download.value.path().read_text()
    client.cancel(waiting.id)
    expect(page.get_by_test_id("queue-empty")).to_be_visible()
    client.cancel(holder.id)
    expect(page.get_by_test_id("free-cpu")).to_have_text("2 of 2 free")
