"""The page of one job: its attempts, its events, its raw plan, and a speed-up against whichever job is chosen."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.backend.executor_attempts import until
from tests.backend.held_jobs import NEVER, held_spec, let_go
from tests.backend.job_specs import job_spec, unlucky_spec
from tests.backend.live_server import LiveServer

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page, Route

pytestmark = pytest.mark.browser
RUN_MS = 150_000
# Where the loss that is drawn ends on its axis; NaN while there is none.
LOSS_ENDS = """() => {
    const chart = document.querySelector('[data-testid=figure-loss][data-drawn]');
    return chart && !chart._fullLayout.meta.empty ? chart._fullLayout.xaxis.range[1] : NaN;
}"""


def test_the_speed_up_is_against_the_job_that_is_chosen(
    page: Page, client: Client, recorded: list[str]
) -> None:
    server, p3 = recorded
    page.goto(f"/jobs/{server}")
    figure = page.get_by_test_id("figure-speed-up")
    expect(figure).to_have_attribute("aria-label", re.compile("no baseline"))
    choice = page.get_by_test_id("baseline-choice")
    choice.fill("no job of that name")
    expect(page.get_by_text("No such job")).to_be_visible()
    choice.fill("recorded p3")
    page.get_by_role("option", name=re.compile("recorded p3")).click()
    expect(page).to_have_url(re.compile(f"baseline={p3}"))
    wanted = client.figure(server, "speed-up", baseline=p3).layout.meta["alt"]
    expect(figure).to_have_attribute("aria-label", f"Speed-up: {wanted}")
    summary = client.summary(server, baseline=p3)
    value, sooner = summary.speed_up, summary.convergence_speed_up
    assert value is not None
    shown = "–" if value.value is None else f"{value.value:.2f}x{'*' if value.why_not else ''}"
    expect(page.get_by_test_id("value-speed-up")).to_have_text(shown)
    assert summary.input_ms is not None
    expect(page.get_by_test_id("tile-input")).to_contain_text(
        re.compile(r"Waiting for input.* ms.*% of worker \d's")
    )
    assert sooner is not None
    expect(page.get_by_test_id("tile-accuracy")).to_contain_text(f", {sooner:.2f}x as soon as recorded p3")


def test_a_chosen_baseline_is_kept(page: Page, client: Client, recorded: list[str]) -> None:
    page.goto(f"/jobs/{recorded[0]}?baseline={recorded[1]}")
    try:
        page.get_by_test_id("baseline-keep").click()
        expect(page).not_to_have_url(re.compile("baseline="))
        expect(page.get_by_test_id("baseline-keep")).to_have_count(0)
        assert client.job(recorded[0]).baseline_id == recorded[1]
    finally:
        assert client.choose_baseline(recorded[0], None).baseline_id is None, "as it was"


def test_a_speed_up_with_a_caveat_is_marked_and_says_why(page: Page, recorded: list[str]) -> None:
    caveat = "another job ran on the machine during this job"
    holds: list[Route] | None = None

    def change(route: Route) -> None:
        """The answer with a caveat, whatever else ran."""
        if holds is not None and "/summary" in route.request.url:
            holds.append(route)
            return
        response = route.fetch()
        answer = response.json()
        for row in [*answer.get("items", ()), *answer.get("jobs", ())]:
            row["speed_up"], row["speed_up_caveat"] = 1.5, caveat
        if "window_steps" in answer and answer["speed_up"]:
            answer["speed_up"] |= {"value": 1.5, "comparable": True, "why_not": caveat}
        route.fulfill(response=response, json=answer)

    page.route(re.compile(r"/api/v1/(jobs\?|jobs/[^/]*/summary|race\?)"), change)
    page.goto("/jobs")
    marked = page.get_by_test_id(f"job-row-{recorded[1]}").get_by_test_id("speed-up")
    expect(marked).to_have_text("1.50x*")
    marked.hover()
    expect(page.get_by_role("tooltip", name=caveat)).to_be_visible()
    holds = []
    page.goto(f"/race?jobs={','.join(recorded)}")
    row = page.get_by_test_id(f"race-row-{recorded[1]}")
    expect(row.get_by_role("img", name="on its way")).to_be_visible()
    expect(row.get_by_test_id("none")).to_have_count(0)  # a dash would go away, and the focus with it
    held, holds = holds, None
    for route in held:
        change(route)
    marked = row.get_by_role("link", name="1.50x*")
    expect(row.get_by_role("img", name="per iteration")).to_be_visible()
    marked.focus()
    tooltip = page.get_by_role("tooltip", name=caveat)

    def explained() -> bool:
        """Out of sight it is explained to nobody, and the page may grow meanwhile."""
        marked.scroll_into_view_if_needed()
        return tooltip.is_visible()

    until(explained, "the tooltip")
    marked.hover()
    page.mouse.move(0, 0)  # as what lies under a pointer does where the page grows
    expect(page.get_by_test_id("figure-race")).to_have_attribute("data-drawn", "true")
    expect(marked).to_be_focused()
    until(explained, "the tooltip")
    page.unroute_all(behavior="wait")  # an answer that is still on its way has a page to come to


def test_attempts_events_and_the_raw_plan(page: Page, client: Client, recorded: list[str]) -> None:
    job = client.job(recorded[0])
    page.goto(f"/jobs/{job.id}?tab=attempts")
    expect(page.get_by_test_id("attempts")).to_contain_text(f"worker 0 on {job.attempts[0].devices[0]}")
    expect(page.get_by_test_id("history").get_by_role("row")).to_have_count(len(job.history))
    page.get_by_test_id("tab-spec").click()
    expect(page.get_by_test_id("raw-plan")).to_contain_text('"exchange": "parameter-server"')


def test_events_are_shown_page_by_page_to_the_last(page: Page, client: Client, recorded: list[str]) -> None:
    events = client.events(recorded[1], step_from=3, step_to=3)
    assert 300 < len(events.kind) <= 600
    assert events.next_cursor is None
    page.goto(f"/jobs/{recorded[1]}?tab=events&step=3")
    rows, count = page.get_by_test_id("events").locator("tbody tr"), page.get_by_test_id("events-count")
    expect(count).to_have_text("300 events, more follow")
    expect(rows).to_have_count(300)
    page.get_by_test_id("events-more").click()
    expect(count).to_have_text(f"{len(events.kind)} events")
    expect(page.get_by_test_id("events-more")).to_have_count(0)
    at_ms = [(start - events.start_ns[0]) / 1e6 for start in events.start_ns]
    assert column(rows, 3) == [kind.replace("_", " ") for kind in events.kind]
    assert column(rows, 10) == events.clock
    assert column_ms(rows) == pytest.approx(at_ms, abs=0.001)

    # Of a kind, wherever in the step they are.
    page.get_by_test_id("events-kinds").click()
    page.get_by_role("option", name="update", exact=True).click()
    updates_ms = [when for when, kind in zip(at_ms, events.kind, strict=True) if kind == "update"]
    expect(count).to_have_text(f"{len(updates_ms)} events")
    assert column_ms(rows) == pytest.approx(updates_ms, abs=0.001)
    page.keyboard.press("Escape")
    page.get_by_test_id("step").fill("2")
    page.get_by_test_id("step").press("Enter")
    expect(page).to_have_url(re.compile("step=2&kinds=update$"))
    page.reload()
    expect(rows.first).to_contain_text("update")
    assert set(column(rows, 3)) == {"update"}


def test_the_events_of_a_running_job_come_by_themselves_and_stand_still(
    page: Page, client: Client, server: LiveServer
) -> None:
    ahead = client.submit(held_spec("has the devices"))
    job = client.submit(held_spec("watched events", at=150, keeps_pace=True))
    rows, step = page.get_by_test_id("events").locator("tbody tr"), page.get_by_test_id("step")
    page.goto(f"/jobs/{job.id}?tab=events")
    expect(page.get_by_test_id("events-none")).to_be_visible()
    client.cancel(ahead.id)
    expect(rows.first).to_be_visible(timeout=RUN_MS)
    page.goto(f"/jobs/{job.id}?tab=events&step=200")  # of each hundred steps, the first are kept
    expect(page.get_by_test_id("events-count")).to_have_text("0 events")
    let_go(server.data_dir, job.id)
    expect(rows.first).to_be_visible(timeout=RUN_MS)

    page.goto(f"/jobs/{job.id}?tab=events")
    expect(rows.first).to_be_visible()
    before = int(step.input_value())
    expect(page.get_by_test_id("events-latest")).to_be_enabled(timeout=RUN_MS)
    assert int(step.input_value()) == before
    assert rows.count() > 0
    page.get_by_test_id("events-latest").click()
    expect(step).not_to_have_value(str(before))
    expect(rows.first).to_be_visible()
    assert int(step.input_value()) > before


def column(rows: Locator, number: int) -> list[str]:
    found: list[str] = rows.evaluate_all("(rows, at) => rows.map(row => row.cells[at].textContent)", number)
    return found


def column_ms(rows: Locator) -> list[float]:
    """The first column's times."""
    return [float(text.removesuffix(" ms")) for text in column(rows, 0)]


def test_the_next_steps_of_a_running_job_are_recorded_and_it_makes_room(page: Page, client: Client) -> None:
    job = client.submit(held_spec("recorded", at=NEVER, pause_s=0.1, checkpoint={"every_steps": NEVER}))
    page.goto(f"/jobs/{job.id}?tab=timeline")
    expect(page.get_by_test_id("state")).to_have_attribute("data-state", "running", timeout=RUN_MS)
    page.get_by_test_id("record").click()  # a job that waits cannot be recorded
    notice = page.get_by_text(re.compile(r"Every event of steps \d+ to \d+"))
    expect(notice).to_be_visible()
    first, last = map(int, re.findall(r"\d+", notice.inner_text()))
    assert last - first == 19
    page.get_by_test_id("preempt").click()  # nobody waits, so that it goes on at once
    page.get_by_test_id("tab-attempts").click()
    expect(page.get_by_test_id("resumed")).to_contain_text("from step", timeout=RUN_MS)
    expect(page.get_by_test_id("attempts")).to_contain_text("It made room for others")
    expect(page.get_by_test_id("checkpoints")).to_contain_text("checkpoint")
    client.cancel(job.id)
    expect(page.get_by_test_id("record")).to_have_count(0)


def test_the_log_of_an_earlier_attempt_is_chosen(page: Page, client: Client, tmp_path: Path) -> None:
    job_id = client.submit(unlucky_spec(tmp_path)).id
    page.goto(f"/jobs/{job_id}?tab=logs")
    log = page.get_by_test_id("log-text")
    expect(log).to_contain_text("the second attempt")  # who looks on goes on with it
    expect(log).not_to_contain_text("the first attempt")
    expect(page.get_by_test_id("attempt-earlier")).to_have_count(0)
    page.get_by_test_id("attempt").click()
    page.get_by_role("option", name="Attempt 1").click()
    expect(page).to_have_url(re.compile("attempt=1$"))
    expect(page.get_by_test_id("attempt-earlier")).to_contain_text("bad luck")
    failed = client.logs(job_id, attempt=1).failed
    expect(log).to_have_text(client.logs(job_id, failed, attempt=1).text)
    page.reload()
    expect(log).to_contain_text("bad luck")
    page.get_by_test_id("tab-overview").click()
    expect(page.get_by_test_id("value-iteration")).to_have_text("–")  # it came to no step
    page.get_by_test_id("tab-attempts").click()
    export = page.get_by_test_id("export-model")  # of what it has ended with
    expect(export).to_have_attribute("href", f"/api/v1/jobs/{job_id}/export?what=model")
    page.get_by_test_id("attempts").get_by_role("link", name="Logs").first.click()
    expect(log).to_contain_text("the second attempt")
    expect(page.get_by_test_id("attempt-earlier")).to_have_count(0)
    page.get_by_test_id("tab-overview").click()
    expect(page.get_by_test_id("value-loss")).to_have_text(f"{client.summary(job_id).loss:.3g}")

    # A zoom is of one attempt's steps, and ends with its address.
    page.goto(f"/jobs/{job_id}?zoom=loss:0:0.5")
    page.wait_for_function(f"({LOSS_ENDS})() === 0.5")
    for attempt, where in (("Attempt 1", r"attempt=1$"), ("Attempt 2", rf"{job_id}$")):
        page.get_by_test_id("attempt").click()
        page.get_by_role("option", name=attempt).click()
        expect(page).to_have_url(re.compile(where))
    page.wait_for_function(f"({LOSS_ENDS})() > 0.5")


def test_of_a_long_log_earlier_lines_are_read_and_its_end_is_followed(
    page: Page, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "wordy.py").write_text(
        "from torch import nn\n"
        "class Wordy(nn.Sequential):\n"
        "    def forward(self, batch):\n"
        "        if not batch.is_meta and self.training:\n"
        "            print('\\n'.join(f'line {n} ' + 60 * '.' for n in range(3000)), flush=True)\n"
        "        return super().forward(batch)\n"
        "def build():\n"
        "    return Wordy(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    wordy = {"entrypoint": "wordy:build", "directory": str(tmp_path)}
    alone = {"strategy": {"name": "single"}, "cluster": {"workers": 1}}
    job = client.submit(job_spec("wordy", model=wordy, training={"steps": 1, "global_batch": 32}, **alone))
    client.wait(job.id, timeout_s=120)
    page.goto(f"/jobs/{job.id}?tab=logs")
    log, follow = page.get_by_test_id("log-text"), page.get_by_test_id("log-follow")
    expect(log).to_contain_text("line 2999 ")
    expect(log).not_to_contain_text("line 0 ")
    shown = page.get_by_role("region", name="Log of worker 0")
    at_end = "view => view.scrollHeight - view.clientHeight - view.scrollTop < 24"
    expect(follow).to_be_checked()
    page.wait_for_function(at_end, arg=shown.element_handle())
    page.get_by_test_id("log-earlier").click()
    expect(log).to_contain_text("line 0 ")
    expect(page.get_by_test_id("log-skipped")).to_have_count(0)
    shown.evaluate("view => view.scrollTo({top: 0})")
    expect(follow).not_to_be_checked()
    follow.check(force=True)  # the switch's own picture lies above its box
    page.wait_for_function(at_end, arg=shown.element_handle())


def test_several_steps_are_chosen(page: Page, client: Client, recorded: list[str]) -> None:
    page.goto(f"/jobs/{recorded[0]}?tab=timeline&step=2")
    field = page.get_by_test_id("to-step")
    field.fill("4")
    field.press("Enter")
    expect(page).to_have_url(re.compile(r"step=2&to_step=4$"))
    wanted = client.figure(recorded[0], "timeline", step=2, to_step=4).layout.xaxis.range
    page.wait_for_function(
        "wanted => document.querySelector('[data-testid=figure-timeline]')?._fullLayout?.xaxis?.range"
        "?.every((edge, i) => Math.abs(edge - wanted[i]) < 1e-6)",
        arg=list(wanted),
    )
    with page.expect_download() as exported:
        page.get_by_test_id("trace").click()
    events = json.loads(exported.value.path().read_text())["traceEvents"]
    steps = {event["args"]["step"] for event in events if "step" in event.get("args", {})}
    assert steps == {2, 3, 4}


def test_news_of_a_view_wait_for_the_end_of_a_drag(page: Page, recorded: list[str]) -> None:
    page.goto(f"/jobs/{recorded[0]}?tab=timeline&step=2")
    figure = page.get_by_test_id("figure-timeline")
    expect(figure).to_have_attribute("data-drawn", "true")
    drawn_from = "() => document.querySelector('[data-testid=figure-timeline]').layout.meta.from_ns"
    whole = page.evaluate(drawn_from)
    box = figure.bounding_box()
    assert box is not None
    left, right, middle = (
        box["x"] + 0.4 * box["width"],
        box["x"] + 0.6 * box["width"],
        box["y"] + 0.4 * box["height"],
    )
    zoomed = re.compile(r"/figures/timeline\?.*from_ns=")
    held: list[Route] = []
    page.route(zoomed, lambda route: held.append(route))  # noqa: PLW0108  (Playwright marks what it calls)
    with page.expect_request(zoomed):
        page.mouse.move(left, middle)
        page.mouse.down()
        page.mouse.move(right, middle, steps=4)
        page.mouse.up()
    page.wait_for_timeout(400)  # no double click
    page.mouse.down()
    with page.expect_response(zoomed):
        held[0].continue_()
    page.unroute(zoomed)
    page.wait_for_selector("[data-testid=figure-timeline]:not([data-pending])")
    page.wait_for_timeout(300)  # as long as drawing would take
    assert page.evaluate(drawn_from) == whole
    page.mouse.move(left, middle, steps=4)
    page.mouse.up()
    page.wait_for_function(f"({drawn_from})() !== {whole}")
