"""A race's report: one file that stands alone, in which whatever people named is text."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
import yaml

from backend.cli.races import report as terminal
from backend.figures.race_throughput import CUT
from backend.race_rows import HEAD, rows_of
from backend.races.spec import MemberSpec, RaceSpec
from backend.schemas.races import Limit, RaceView, Ranking, Standing, Suggestion
from backend.schemas.telemetry import Processors
from backend.services.race_drawing import is_cut, lines_of, over_rates
from backend.services.race_report import Provenance, html
from backend.tables import RaceTable
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from tests.backend.job_specs import job_spec

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&</pre></style>"
ORIGIN = Provenance(
    version="1.2", commit="abc123", cpu="A Processor", cores=8, memory_bytes=2**34, kernel="6.1", python="3.12",
    torch="2.9", devices=("4 x cpu (A Processor)",), written=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
)  # fmt: skip
VOID = {"meta", "br", "img", "link"}


class Reader(HTMLParser):
    """Every element with its attributes, and the text; fails where elements do not close as they opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def standing(member: int, name: str, iteration_ms: float | None, **fields: object) -> Standing:
    values: dict[str, object] = {
        "rank": member + 1 if iteration_ms else None, "iteration_ms": iteration_ms, "exposed_ms": 10.0,
        "samples_per_s": 32_000 / iteration_ms if iteration_ms else None, "times_fastest": 1.0 + member,
        "low": 1.9 if member else None, "high": 2.1 if member else None, "significant": bool(member), "rounds": 3,
        "out": None, "remark": None, "joined_s": None,
        "job_ids": [f"job-{member}"], "samples_low": None, "samples_high": None, "port_busy": 0.94,
        "one_port_busy": 0.52,
        "processors": Processors(busy=0.41, own=0.38),
        "limit": Limit(kind="port", sentence=f"port: {name} waits", crowded=False),
    }  # fmt: skip
    return Standing.model_validate({"member": member, "name": name, **values, **fields})


def test_a_printed_race_is_a_hundred_columns_wide() -> None:
    member = "ring-allreduce-overlap (slice_size=500, where=dedicated)"
    found = RaceTable.of(race(member, out="network.hosts = 2: is fewer than workers. " * 5))
    slow = [standing(0, member, 20_604.5, rank=None), standing(1, "parameter-server", 50_604.123)]
    unknown = found.race.rankings[0].model_copy(update={"condition": "slow", "standings": slow})
    text = repr(RaceTable.of(found.race.model_copy(update={"rankings": [*found.race.rankings, unknown]})))
    assert max(map(len, text.splitlines())) <= 100
    assert "\n1 ring-allreduce-overlap" in text
    assert re.search(r"- ring-allreduce-o.*…  20604\.50 ms  10\.00 ms", text)
    assert "   parameter-server takes no part: network.hosts = 2" in text
    assert f"{member}: port: {member} waits" in " ".join(text.split())
    assert "100Mbit: " in text
    assert [row["member"] for row in found] == [member, "parameter-server"] * 2, "rows are whole"


def test_a_place_is_written_as_on_the_page() -> None:
    found = race()
    assert [row.place for row in rows_of(found.rankings[0]).ranked] == ["1", "2"]
    assert "<td>1</td><td>digits</td>" in html(found, ORIGIN)
    assert re.search(r"<td[^>]*>1</td>", RaceTable.of(found)._repr_html_())
    for text in (terminal(found), repr(RaceTable.of(found))):
        assert re.search(r"^1 digits ", text, re.MULTILINE)
        assert re.search(r"^2 parameter-server ", text, re.MULTILINE)
    level = [one.model_copy(update={"rank": 1, "tied": True}) for one in found.rankings[0].standings]
    rows = rows_of(found.rankings[0].model_copy(update={"standings": level})).ranked
    assert [row.place for row in rows] == ["1 (not told apart)"] * 2


def test_processors_that_are_not_measured_say_so() -> None:
    found = race()
    blank = [one.model_copy(update={"processors": None}) for one in found.rankings[0].standings]
    ranking = found.rankings[0].model_copy(update={"standings": blank})
    unknown = rows_of(ranking)
    assert [row.figures[-2:] for row in unknown.ranked] == [("not measured", "not measured")] * 2
    page = html(found.model_copy(update={"rankings": [ranking]}), ORIGIN)
    said = terminal(found.model_copy(update={"rankings": [ranking]}))
    for text in (page, said):
        assert "too few steps were measured" in text
    assert "too few steps" not in terminal(found)
    assert rows_of(found.rankings[0]).notes == ()


def test_how_busy_ports_were_stands_beside_the_processors() -> None:
    found = race()
    standings = found.rankings[0].standings
    compute = Limit(kind="compute", sentence="compute: workers wait 4 % of the step", crowded=False)
    changed = [
        standings[0].model_copy(update={"limit": compute}),
        standings[1].model_copy(update={"port_busy": None}),
    ]
    ranking = found.rankings[0].model_copy(update={"standings": changed})
    ours = found.model_copy(update={"rankings": [ranking]})
    assert [row.figures[-3:] for row in rows_of(ranking).ranked] == [
        ("94 %", "41 %", "38 %"),
        ("-", "41 %", "38 %"),
    ]
    assert re.search(
        r"rounds +port busy +processors busy +with its job\n1 digits .* 94 % +41 % ", terminal(ours)
    )
    assert "Port busy</th>" in html(ours, ORIGIN)
    assert [row["port_busy"] for row in RaceTable.of(ours)] == [0.94, None]


def test_a_ratio_without_an_interval_says_how_many_rounds_it_takes() -> None:
    found = race()
    few = [
        one.model_copy(update={"rank": None, "rounds": 2, "low": None, "high": None})
        for one in found.rankings[0].standings
    ]
    ranking = found.rankings[0].model_copy(update={"standings": few})
    assert [row.figures[3:5] for row in rows_of(ranking).ranked] == [("1.000", "-"), ("2.000", "-")]
    early = found.model_copy(update={"rankings": [ranking]})
    for text in (html(early, ORIGIN), terminal(early)):
        assert "A 95 % interval needs 3 rounds." in text
    assert "interval needs" not in terminal(found)


def race(name: str = "digits", *, out: str | None = None) -> RaceView:
    """Two members at two rates."""
    spec = RaceSpec(
        name=name,
        job=from_plain(JobSpec, job_spec(name)),
        members=(MemberSpec(strategy="p3", name=name[:100]), MemberSpec(strategy="parameter-server")),
        rates=("100Mbit", "1Gbit"),
    )
    rankings = [
        Ranking(
            condition=rate, rate=rate, workers=None, batch=None,
            sentence=f"{name} finishes a step 2.00x sooner than parameter-server",
            standings=[
                standing(0, name, 50.0 / factor),
                standing(1, "parameter-server", None if out else 100.0 / factor, out=out),
            ],
        )
        for rate, factor in (("100Mbit", 1), ("1Gbit", 4))
    ]  # fmt: skip
    return RaceView(
        id="1", name=name, state="finished", members=[name, "parameter-server"], model="mlp", rehearsed=None,
        slowed="worker 1 slowed: computes 2x as long", jobs=12, jobs_ended=12, jobs_failed=0, notes=[],
        created_at=datetime(2026, 1, 1, tzinfo=UTC), ended_at=datetime(2026, 1, 2, tzinfo=UTC),
        spec=spec, rankings=rankings, crossings=[f"{name} is caught up with at 900 Mbit/s"], round=3, running_job=None,
        left_s=None, decided=True, next=[Suggestion(text=f"Let {name} race", reason=f"{name} waits")],
    )  # fmt: skip


def test_the_conclusion_comes_first_and_all_that_it_rests_on_follows() -> None:
    text = Reader(html(race(), ORIGIN)).text
    for part in (
        "p3",
        "worker 1 slowed: computes 2x as long",
        "900 Mbit/s",
        "1.900 to 2.100",
        "commit abc123",
        "4 x cpu (A Processor)",
        "job-1",
        "640.0",
        "41 %",
    ):
        assert part in text, part
    order = [
        "finishes a step 2.00x sooner", "caught up with at 900", "Samples per second over", "Ranking at 100Mbit",
        "What limits each", "What to try next", "How it was measured", "Versions and hardware", "Specification",
        "Ids, by round",
    ]  # fmt: skip
    places = [text.index(part, 400) for part in order]
    assert places == sorted(places)


def test_report_and_terminal_show_the_same_rows() -> None:
    asked = race(out="ended by itself")
    page, lines = Reader(html(asked, ORIGIN)).text, terminal(asked).splitlines()
    found = rows_of(asked.rankings[0])
    assert found.ranked[0].figures == (
        "50.00 ms", "10.00 ms", "640.0", "1.000", "-", "3", "94 %", "41 %", "38 %",
    )  # fmt: skip
    assert "".join(name.capitalize() for name in HEAD) in page
    assert [part for part in lines if re.split(r"  +", part.strip()) == list(HEAD)]
    for row in found.ranked:
        assert f"{row.place}{row.name}{''.join(row.figures)}" in page
        assert [f"{row.place} {row.name}", *row.figures] in [re.split(r"  +", line) for line in lines]
    for name, text in found.limits:
        assert f"{name}: {text}" in page
        assert f"   {name}: {text}" in lines
    assert found.out == (("parameter-server", "ended by itself"),)
    for name, reason in found.out:
        assert f"{name} takes no part: {reason}" in page
        assert f"{name} takes no part: {reason}" in lines


@pytest.mark.parametrize(
    "hostile", [HOSTILE, f"{HOSTILE[:60]}", "a\u2028b", "]]>", "{{x}}", "\\u003cscript\\u003e"]
)
def test_what_people_named_is_text(hostile: str) -> None:
    named = race(hostile, out=f"refused: {hostile}")
    origin = replace(ORIGIN, cpu=hostile, devices=(hostile,), kernel=hostile)
    found = Reader(html(named, origin))
    plain = Reader(html(race("plain", out="refused: plain"), ORIGIN))
    assert [tag for tag, _ in found.elements] == [tag for tag, _ in plain.elements], "a name makes no element"
    for tag, attributes in found.elements:
        assert not [name for name in attributes if name.startswith("on")], tag
    assert found.text.count(hostile) >= 8


def test_the_file_asks_for_nothing() -> None:
    page = html(race(HOSTILE), ORIGIN)
    elements = Reader(page).elements
    assert not {"script", "link", "img", "iframe", "object", "base"} & {tag for tag, _ in elements}
    assert not [a for _, attributes in elements for a in attributes if a in ("src", "href", "srcset")]
    policy = next(a["content"] for _, a in elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    assert len(page) < 40_000


def test_the_specification_in_it_makes_the_same_race() -> None:
    asked = race()
    page = Reader(html(asked, ORIGIN)).text
    written = page[page.index("name: digits") : page.index("Jobs", page.index("name: digits"))]
    assert from_plain(RaceSpec, yaml.safe_load(written)) == asked.spec
    assert "rounds" not in written, "it has its default"


def test_a_race_without_figures_says_so_and_draws_nothing() -> None:
    nobody = race().model_copy(
        update={
            "state": "running",
            "rankings": [
                Ranking(
                    condition="", rate=None, workers=None, batch=None, sentence="No member has figures yet",
                    standings=[standing(0, "p3", None)],
                )
            ],
            "crossings": [],
            "next": [],
        }
    )  # fmt: skip
    found = Reader(html(nobody, ORIGIN))
    assert "No member has figures yet" in found.text
    assert "the figures are those until now" in found.text
    assert "svg" not in {tag for tag, _ in found.elements}


def test_lines_run_from_rate_to_rate_and_stay_in_the_picture() -> None:
    lines = lines_of(race().rankings)
    assert [(line.name, line.points) for line in lines] == [
        ("digits", [(1e8, 640.0), (1e9, 2560.0)]),
        ("parameter-server", [(1e8, 320.0), (1e9, 1280.0)]),
    ]
    drawn = over_rates(lines)
    points = [
        float(number) for text in re.findall(r'points="([^"]*)"', drawn) for number in re.split("[ ,]", text)
    ]
    assert len(points) == 8
    assert all(0 <= x <= 760 for x in points[::2])
    assert all(0 <= y <= 330 for y in points[1::2])
    assert points[1] > points[3], "more samples per second are higher up"


def test_intervals_are_drawn_and_one_that_is_very_wide_does_not_flatten_the_lines() -> None:
    lines = lines_of(race().rankings)
    plain = over_rates(lines)
    lines[0].intervals.append((1e8, 600.0, 700.0))
    close = over_rates(lines)
    assert close.count('<line stroke="') == 1
    assert not is_cut(lines)
    assert re.findall(r'points="([^"]*)"', close) == re.findall(r'points="([^"]*)"', plain)
    lines[0].intervals[:] = [(1e8, 1.0, 1e9)]
    wide = over_rates(lines)
    assert re.findall(r'points="([^"]*)"', wide) == re.findall(r'points="([^"]*)"', plain)
    top = re.search(r'<line stroke="[^>]*y2="([0-9.]+)"', wide)
    assert top is not None
    assert float(top[1]) >= 0
    assert is_cut(lines)
    assert CUT in wide


def test_an_interval_that_ends_at_the_edge_of_the_report_has_a_note() -> None:
    found = race()
    assert CUT not in html(found, ORIGIN)
    first = found.rankings[0].standings[0]
    found.rankings[0].standings[0] = first.model_copy(update={"samples_low": 1.0, "samples_high": 1e9})
    assert f"{CUT}." in Reader(html(found, ORIGIN)).text
