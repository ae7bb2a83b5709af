"""Launch starts from a template or from a file, and says at its field whatever the service refuses."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from backend.app import MAX_BODY_BYTES
from backend.client import Client
from backend.templates import load
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from tests.backend.test_api_errors import BAD
from tests.e2e.launching import open_file, open_spec

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.browser
IMAGES = {"name": "synthetic", "options": {"shape": [3, 32, 32]}}
OF_THE_PLAN = {"override that cannot run"}
"""Refused at a layer of the plan, which has no field in the form; the plan editor shows it at the layer."""

LONG = {"steps": 100_000, "global_batch": 32}
"""Of a job that runs until it is cancelled."""


def plain(text: str) -> str:
    """As it reads, whatever the lines and the first letter."""
    return " ".join(text.split()).lower().rstrip(".")


def said_at(page: Page, field: str) -> str:
    """What stands at the field, which one can see: the section around it is open."""
    found = page.get_by_test_id(f"field-{field}")
    expect(found).to_be_visible()
    # An input's message stands beside it, in the wrapper that belongs to it alone.
    wrapper = found.locator("xpath=ancestor::*[contains(@class, 'mantine-InputWrapper-root')][1]")
    is_input = found.evaluate("element => element.tagName === 'INPUT'")
    return (wrapper if is_input else found).inner_text()


def refused(page: Page, status: int) -> dict[str, Any]:
    """What the service says when the form is sent, which the page repeats beside the button."""
    with page.expect_response(lambda answer: answer.url.endswith("/api/v1/jobs")) as answer:
        page.get_by_test_id("launch").click()
    assert answer.value.status == status
    (error,) = answer.value.json()["errors"]
    rule = error["rule"].replace("`", "")  # what stands between these is shown as code
    expect(page.get_by_test_id("launch-problem")).to_contain_text(f"{error['field']}: {rule}")
    return error


OF_EACH_PART = {
    (field.partition(".")[0], ".options." in field): case for case, (_, field, _) in reversed(BAD.items())
}
"""The first case of each section of the form, and of its options: the fields of one say alike what is wrong."""


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(set(OF_EACH_PART.values()), id="of each part"),
        pytest.param(set(BAD), id="all", marks=pytest.mark.soak),
    ],
)
def test_what_is_refused_is_said_at_its_field(page: Page, client: Client, cases: set[str]) -> None:
    """Every refusal at its field of the API's answer: `test_api_errors.py`."""
    before = client.health().jobs
    page.goto("/launch")
    for number, (case, (changes, field, _)) in enumerate(BAD.items()):
        if case not in cases:
            continue
        open_spec(page, f"bad-{number}.yaml", **changes)
        error = refused(page, 422)
        assert error["field"] == field, case
        if case not in OF_THE_PLAN:
            message = plain(said_at(page, field))
            assert plain(error["rule"]) in message, case
            assert plain(error["remedy"]) in message, case
    assert client.health().jobs == before


def test_refusals_of_other_kinds(page: Page, client: Client, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import nothing_of_this_name\ndef build(): ...\n")
    page.add_init_script("crypto.getRandomValues = array => array.fill(7)")  # every form has the same key
    page.goto("/launch")
    open_spec(page, "mine.yaml", model={"entrypoint": "mine:build", "directory": str(tmp_path)})
    assert "nothing_of_this_name" in said_at(page, refused(page, 422)["field"])

    open_spec(page, "first.yaml", name="the first", training=LONG)
    page.get_by_test_id("launch").click()
    expect(page.get_by_test_id("job-name")).to_have_text("the first")
    client.cancel(re.search(r"/jobs/([\w-]+)", page.url)[1])

    page.goto("/launch")
    open_spec(page, "another.yaml", name="another")
    expect(page.get_by_test_id("plan-totals")).to_be_visible()
    assert "another body" in refused(page, 409)["rule"]

    page.context.set_offline(True)
    page.get_by_test_id("launch").click()
    expect(page.get_by_test_id("launch-problem")).to_contain_text("The service cannot be reached")
    page.context.set_offline(False)
    refused(page, 409)  # it is asked again, and answers


def test_what_is_too_large_or_comes_at_a_bad_moment_is_said_and_loses_nothing(
    page: Page, client: Client
) -> None:
    page.goto("/launch")
    open_file(page, f"name: {'x' * MAX_BODY_BYTES}")
    large = page.get_by_test_id("file-problem")
    expect(large).to_contain_text(f"a JSON body has at most {MAX_BODY_BYTES} bytes. Send less")

    open_spec(page, "patient.yaml", name="patient", training=LONG)
    expect(large).to_have_count(0)
    expect(page.get_by_test_id("plan-totals")).to_be_visible()
    said = "database /data/trainyard.db: the disk under it is full. Free space there; what was acknowledged is safe"
    page.route("**/api/v1/jobs", lambda route: busy(route, said))
    page.get_by_test_id("launch").click()
    expect(page.get_by_test_id("launch-problem")).to_contain_text(said)
    expect(page.get_by_test_id("field-name")).to_have_value("patient")
    page.unroute("**/api/v1/jobs")
    page.get_by_test_id("launch").click()
    expect(page.get_by_test_id("job-name")).to_have_text("patient")
    client.cancel(re.search(r"/jobs/([\w-]+)", page.url)[1])


def test_a_plan_that_cannot_be_made_now_is_asked_for_again(page: Page) -> None:
    said = "6 models are being described, or wait for it"
    page.route("**/api/v1/plans", lambda route: busy(route, said))
    page.goto("/launch")
    expect(page.get_by_test_id("plan-busy")).to_contain_text(said)
    page.unroute("**/api/v1/plans")
    expect(page.get_by_test_id("plan-totals")).to_be_visible()
    expect(page.get_by_test_id("plan-busy")).to_have_count(0)


def test_what_a_job_cannot_start_from_is_said(page: Page) -> None:
    page.goto("/launch?template=nonsense")
    expect(page.get_by_role("alert")).to_contain_text("There is no template nonsense")
    expect(page.get_by_test_id("field-name")).to_be_visible()  # the form works all the same
    page.goto("/launch?from=nowhere")
    expect(page.get_by_role("alert")).to_contain_text("nowhere")
    page.get_by_role("link", name="Launch").first.click()
    expect(page.get_by_test_id("field-name")).to_be_visible()


def busy(route: Route, detail: str) -> None:
    """As the service answers while its database cannot write."""
    if route.request.method != "POST":
        route.continue_()
        return
    body = {
        "type": "/problems/unavailable",
        "title": "Not now",
        "status": 503,
        "detail": detail,
        "errors": [],
    }
    route.fulfill(status=503, content_type="application/problem+json", body=json.dumps(body))


def test_a_job_starts_from_a_template_or_a_file(page: Page) -> None:
    with page.expect_request(lambda request: request.url.endswith("/plans")) as asked:
        page.goto("/launch?template=vgg-small")
    assert from_plain(JobSpec, asked.value.post_data_json | {"name": "vgg-small"}) == load("vgg-small")
    expect(page.get_by_test_id("field-network.rate")).to_have_value("250Mbit")
    page.get_by_test_id("template").click()
    page.get_by_role("option", name="resnet-digits").click()
    expect(page).to_have_url(re.compile(r"/launch\?template=resnet-digits$"))
    name = page.get_by_test_id("field-name")
    expect(name).to_have_value("resnet-digits")

    open_file(page, "name: broken\nmodel: [1")
    problem = page.get_by_test_id("file-problem")
    expect(problem).to_contain_text("line 2, column")
    expect(problem).to_contain_text("Correct the syntax")
    expect(name).to_have_value("resnet-digits")

    open_spec(page, "corrected.yaml", name="corrected", stratgy={"name": "p3"})
    expect(problem).to_have_count(0)
    expect(name).to_have_value("corrected")
    stranger = page.get_by_test_id("field-stratgy")
    expect(stranger).to_contain_text("'strategy'")
    stranger.get_by_role("button").click()
    expect(stranger).to_have_count(0)
    expect(page.get_by_test_id("plan-totals")).to_be_visible()


def test_of_a_deep_network_the_layers_near_are_drawn(page: Page) -> None:
    page.goto("/launch")
    open_spec(page, "deep.yaml", model={"name": "resnet32"}, data=IMAGES)
    table = page.get_by_test_id("plan-table")
    expect(table).to_be_visible()
    layers = int(table.get_attribute("aria-rowcount") or 0) - 1
    rows = table.locator("tr[data-layer]")
    expect(rows.first).to_have_attribute("data-layer", "0")
    assert 0 < rows.count() < layers
    last = table.locator(f"tr[data-layer='{layers - 1}']")
    expect(last).to_have_count(0)
    table.hover()
    for _ in range(4):
        page.mouse.wheel(0, 20 * layers)
    expect(last).to_be_in_viewport()
    expect(table.locator("tr[data-layer='0']")).to_have_count(0)
