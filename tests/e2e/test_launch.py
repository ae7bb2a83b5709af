"""A job from the form to its end, and charts that draw what the API says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.backend.job_specs import job_spec
from tests.e2e.complete import with_all_telemetry
from tests.e2e.drawn import wait_until_drawn
from tests.e2e.launching import STEPS, expect_the_plan, fill_form, open_form, open_section
from tests.e2e.shown import expect_shown

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.browser
FINISH_MS = 150_000


def bytes_by_layer(page: Page) -> list[float]:
    """What the plan's table says of every layer, read as a person does: `1.5 MiB`."""
    cells = page.get_by_test_id("plan-table").locator("tr[data-layer] td:last-child").all_inner_texts()
    return [in_bytes(cell) for cell in cells]


def in_bytes(cell: str) -> float:
    value, unit = cell.replace(",", "").split()
    return float(value) * 1024 ** ("B", "KiB", "MiB").index(unit)


def test_a_job_launched_from_the_form_is_watched_to_its_end(page: Page, client: Client) -> None:
    fill_form(page, "from the form", strategy="p3", workers=2)
    expect_the_plan(page)
    expect(page.get_by_test_id("plan-totals")).to_contain_text("on the wire per step")
    expect(page.get_by_test_id("plan-table")).to_contain_text("parameter-server")
    previewed = bytes_by_layer(page)
    with expect_shown(page, "state", "running", within_ms=FINISH_MS):
        page.get_by_test_id("launch").click()
        expect(page.get_by_test_id("job-name")).to_have_text("from the form")
    job_id = re.search(r"/jobs/([\w-]+)", page.url)[1]
    assert previewed == pytest.approx(
        [layer.row.wire_bytes for layer in client.job(job_id).plan.layers], rel=0.05
    ), "as near as one decimal says it"
    page.evaluate("window.untouched = true")
    expect(page.get_by_test_id("state")).to_have_attribute("data-state", "succeeded", timeout=FINISH_MS)
    assert page.evaluate("window.untouched"), "the page was loaded again"

    job = with_all_telemetry(client, job_id)
    summary = client.summary(job_id)
    assert (job.step, job.strategy, job.workers) == (STEPS, "p3", 2)
    expect(page.get_by_test_id("value-accuracy")).to_have_text(f"{100 * summary.test_accuracy:.1f} %")
    expect(page.get_by_test_id("value-loss")).to_have_text(f"{summary.loss:.3g}")

    series = client.metrics(job_id).series
    points = series["loss"]
    drawn = wait_until_drawn(page, "figure-loss", "loss", [point.value for point in points])
    assert drawn["x"] == [point.step for point in points]
    wait_until_drawn(page, "figure-throughput", "samples/s", [point.value for point in series["throughput"]])


def test_while_a_plan_is_made_again_the_page_says_so(page: Page) -> None:
    fill_form(page, "planned", strategy="p3", workers=2)
    open_section(page, "model")
    expect_the_plan(page)
    planning, table = page.get_by_test_id("planning"), page.get_by_test_id("plan-table")
    expect(planning).to_have_count(0)

    def other_workers() -> None:
        page.get_by_test_id("field-cluster.workers").fill("3")

    def other_model() -> None:
        page.get_by_test_id("field-model.name").click()
        page.get_by_role("option", name=re.compile("^vgg-small")).first.click()

    held: list[Route] = []
    for change, last_plan in ((other_workers, 1), (other_model, 0)):
        page.route("**/api/v1/plans", lambda route: held.append(route))  # noqa: PLW0108
        with page.expect_request("**/api/v1/plans"):
            change()
        expect(planning).to_have_text("Planning …")
        expect(table).to_have_count(last_plan)
        held.pop().continue_()
        page.unroute("**/api/v1/plans")
        expect(planning).to_have_count(0)
        expect(table.or_(page.get_by_test_id("plan-problem"))).to_be_visible()


def test_what_the_service_refuses_is_said_at_the_field(page: Page, client: Client) -> None:
    before = client.health().jobs
    fill_form(page, "refused", strategy="p3", workers=0)
    field = page.get_by_test_id("field-cluster.workers")
    expect(field).to_have_attribute("aria-invalid", "true")
    page.get_by_test_id("launch").click()
    problem = page.get_by_test_id("launch-problem")
    expect(problem).to_contain_text("at least one worker")
    expect(problem).to_contain_text("Use 1 or more")
    assert page.url.endswith("/launch")
    assert client.health().jobs == before

    field.fill("2")
    expect(field).not_to_have_attribute("aria-invalid", "true")
    expect(page.get_by_test_id("plan-totals")).to_be_visible()


def test_a_rehearsal_is_launched_and_called_one_wherever_it_is_shown(page: Page, client: Client) -> None:
    open_form(page, "rehearsal", strategy="p3")
    section = page.get_by_test_id("section-rehearsal")
    expect(section).to_have_count(0)
    page.get_by_test_id("field-fidelity").click()
    page.get_by_role("option", name="rehearse").click()
    expect(section).to_be_visible()
    open_section(page, "rehearsal")
    page.get_by_test_id("field-rehearsal.device").click()
    page.get_by_role("option", name="v100").click()
    page.get_by_test_id("launch").click()

    label = "rehearsed: compute of V100 derived from FLOPs at 60 %"
    expect(page.get_by_test_id("rehearsed-text")).to_have_text(label)
    job = client.wait(re.search(r"/jobs/([\w-]+)", page.url)[1], timeout_s=FINISH_MS / 1000)
    assert (job.state, job.rehearsed) == ("succeeded", label)
    expect(page.get_by_test_id("figure-loss")).to_have_attribute("aria-label", re.compile(re.escape(label)))
    page.goto("/jobs")
    row = page.get_by_test_id(f"job-row-{job.id}")
    row.get_by_test_id("rehearsed").hover()
    expect(page.get_by_role("tooltip")).to_have_text(label)
    page.goto(f"/race?jobs={job.id},{job.id}")
    expect(page.get_by_test_id(f"race-row-{job.id}").get_by_test_id("rehearsed")).to_be_visible()


def test_a_slowed_worker_is_launched_and_said_wherever_it_is_shown(page: Page, client: Client) -> None:
    open_form(page, "slowed", strategy="p3")
    section = page.get_by_test_id("section-faults")
    expect(section).to_contain_text("none")
    open_section(page, "faults")
    section.get_by_role("button", name="Add").click()
    field = page.get_by_test_id("field-faults.stragglers.0.worker")
    field.fill("2")
    expect(section).to_contain_text("counted from 0")
    field.fill("1")
    page.get_by_test_id("field-faults.stragglers.0.factor").fill("1.5")
    expect(section).to_contain_text("worker 1 slowed")
    page.get_by_test_id("launch").click()

    label = "worker 1 slowed: computes 1.5x as long"
    expect(page.get_by_test_id("slowed-text")).to_have_text(label)
    job = client.wait(re.search(r"/jobs/([\w-]+)", page.url)[1], timeout_s=FINISH_MS / 1000)
    assert (job.state, job.slowed, job.rehearsed) == ("succeeded", label, None)
    expect(page.get_by_test_id("figure-loss")).to_have_attribute("aria-label", re.compile(re.escape(label)))
    expect(page.get_by_test_id("figure-loss")).to_contain_text(label)
    page.goto("/jobs")
    row = page.get_by_test_id(f"job-row-{job.id}")
    row.get_by_test_id("slowed").hover()
    expect(page.get_by_role("tooltip")).to_have_text(label)
    page.goto(f"/race?jobs={job.id},{job.id}")
    expect(page.get_by_test_id(f"race-row-{job.id}").get_by_test_id("slowed")).to_be_visible()


def test_code_of_ones_own_runs_only_when_its_path_is_complete(page: Page, tmp_path: Path) -> None:
    for name in ("net", "network"):
        (tmp_path / f"{name}.py").write_text(
            "import pathlib\n"
            "pathlib.Path(__file__).with_suffix('.ran').touch()\n"
            "from torch import nn\n"
            "def build():\n"
            "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
        )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/plans" in request.url else None)
    open_form(page, "mine", strategy="p3")
    expect(page.get_by_test_id("plan-totals")).to_be_visible()
    open_section(page, "model")
    page.get_by_test_id("own-model").click()
    expect(page.get_by_test_id("plan-totals")).to_have_count(0)  # the last model's plan is not this one's
    page.get_by_test_id("field-model.directory").fill(str(tmp_path))
    expect(page.get_by_test_id("plan-held")).to_be_visible()
    before = len(asked)
    entry = page.get_by_test_id("field-model.entrypoint")
    entry.press_sequentially("net:build")
    page.wait_for_timeout(1500)  # longer than typing is waited for
    entry.fill("network:build")
    page.wait_for_timeout(1500)
    assert len(asked) == before
    page.get_by_test_id("plan-now").click()
    expect(page.get_by_test_id("plan-held")).to_have_count(0)
    expect(page.get_by_test_id("plan-totals")).to_contain_text("650")
    assert [path.name for path in tmp_path.glob("*.ran")] == ["network.ran"]


def test_ones_own_model_is_measured_for_a_rehearsal(page: Page, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Linear(16))\n"
    )
    open_form(page, "measured", strategy="p3")
    open_section(page, "model")
    page.get_by_test_id("own-model").click()
    entry = page.get_by_test_id("field-model.entrypoint")
    entry.fill(f"{tmp_path}/net.py:build")
    entry.blur()
    expect(page.get_by_test_id("field-model.directory")).to_have_value(str(tmp_path))
    expect(entry).to_have_value("net:build")
    problem = page.get_by_test_id("plan-problem")
    expect(problem).to_contain_text("net.py")
    expect(problem).to_contain_text("line 3")  # the person's own mistake, where it is
    (tmp_path / "net.py").write_text(
        (tmp_path / "net.py").read_text().replace("Linear(16)", "Linear(16, 10)")
    )
    page.get_by_test_id("field-fidelity").click()
    page.get_by_role("option", name="rehearse").click()
    open_section(page, "rehearsal")
    page.get_by_test_id("measure-profile").click()
    rows = page.get_by_test_id("profile").locator("tbody tr")
    expect(rows).to_have_count(3)  # two layers, and all
    expect(page.get_by_text(re.compile("Passes of .* samples on (cpu|cuda): "))).to_be_visible()
    expect(page.get_by_test_id("field-rehearsal.profile")).to_have_value(re.compile(r"/profiles/\w+\.json$"))
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV of profile").click()
    assert len(download.value.path().read_text().splitlines()) == 1 + rows.count()
    expect(page.get_by_test_id("plan-totals")).to_be_visible()


def test_own_code_is_checked_again_and_enter_launches_nothing(
    page: Page, client: Client, tmp_path: Path
) -> None:
    net = tmp_path / "net.py"
    net.write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    page.goto("/launch?race=true")
    open_section(page, "model")
    page.get_by_test_id("own-model").click()
    entry = page.get_by_test_id("field-model.entrypoint")
    entry.fill(str(net))
    entry.blur()
    expect(page.get_by_text("Write module:function, as net:build, or with its file")).to_be_visible()
    expect(entry).to_have_attribute("aria-invalid", "true")
    entry.fill(f"{net}:build")
    entry.blur()
    member = page.get_by_test_id("can-p3")
    expect(member).to_have_attribute("data-state", "runs")
    net.write_text("broken\n")
    page.get_by_test_id("check-again").click()
    expect(member).to_have_attribute("data-state", "refused")
    net.write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    page.get_by_test_id("check-again").click()
    expect(member).to_have_attribute("data-state", "runs")
    before = len(client.races().items)
    page.get_by_test_id("field-name").fill("by accident")
    page.get_by_test_id("field-name").press("Enter")
    page.wait_for_timeout(500)
    expect(page).to_have_url(re.compile("/launch"))
    assert len(client.races().items) == before
    # What was typed is a draft of this tab: it is there after a reload, until somebody starts over.
    page.reload()
    expect(page.get_by_test_id("field-name")).to_have_value("by accident")
    expect(page.get_by_test_id("field-model.entrypoint")).to_have_value("net:build")
    page.get_by_test_id("start-over").click()
    expect(page.get_by_test_id("field-name")).to_have_value("")
    expect(page.get_by_test_id("draft-found")).not_to_be_visible()


def test_jobs_of_ones_own_model_are_chosen_by_it(page: Page, client: Client, tmp_path: Path) -> None:
    (tmp_path / "chosen.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    job = client.submit(job_spec("own", model={"entrypoint": "chosen:build", "directory": str(tmp_path)}))
    client.stop(job.id, timeout_s=60)
    page.goto("/jobs")
    page.get_by_test_id("filter-model").click()
    page.get_by_role("option", name="chosen:build", exact=True).click()
    expect(page.get_by_test_id(f"job-row-{job.id}")).to_be_visible()
    expect(page.get_by_test_id("jobs-count")).to_have_text("1 job")
