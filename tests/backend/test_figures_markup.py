"""Names are anybody's words: a figure shows them as they are, and makes no link, no line and no field of them."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import pytest

from backend.db import Database
from backend.db.models import Job
from backend.figures.compare import compare
from backend.figures.heatmap import heatmap
from backend.figures.markup import as_text
from backend.figures.race import race
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.figures.speed_up import speed_up_figure
from backend.figures.timeline import timeline
from backend.figures.utilization import utilization
from tests.backend.figures_drawn import answer
from tests.backend.recorded_run import LAYERS, Run, record_run

LINK = '<a href="http://evil/">x<br><i>y</i></a>%{x}&amp;'
OURS = {"b", "/b", "br", "/span", "/extra", "extra"}


def test_only_what_could_be_markup_is_written_otherwise() -> None:
    assert as_text("4 (Conv2d), 5 % of it") == "4 (Conv2d), 5 % of it"
    assert html.unescape(as_text(LINK)) == LINK
    assert not {"<", ">"} & set(as_text(LINK))
    assert "%{" not in as_text(LINK)


@pytest.fixture(scope="module")
def run(database: Database) -> Run:
    """A job whose name, and the name of whose every layer, is markup."""
    found = record_run(database, LINK, priority=True, strategy="p3")

    def write(session: Any) -> None:
        session.get_one(Job, found.job_id).description = {
            "name": "odd",
            "layers": [{"name": f"{LINK}{i}", "index": i, "kind": "Linear"} for i in range(len(LAYERS))],
        }

    database.writer.run(write)
    return found


@pytest.fixture(scope="module")
def other(database: Database, run: Run) -> Run:
    return record_run(database, f"{LINK}2", strategy="p3", baseline=run.job_id)


def drawn(content: Any, key: str = "") -> Iterator[str]:
    """Every text that plotly.js draws, and every template."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name not in ("meta", "uirevision", "template"):
                yield from drawn(value, name)
    elif isinstance(content, list):
        for value in content:
            yield from drawn(value, key)
    elif isinstance(content, str) and key != "bdata":
        yield content


def check(content: dict[str, Any]) -> None:
    named = 0
    areas = [trace.pop("name") for trace in content["data"] if trace.get("stackgroup")]  # no legend has them
    for text in drawn(content):
        named += "evil" in text
        tags = {tag.partition(" ")[0] for tag in text.replace(">", "<").split("<")[1::2]}
        assert tags - {"span"} <= OURS, text
        assert "%{x}&amp;" not in text
    assert named or not areas, "names are drawn"


@pytest.mark.parametrize("figure", [timeline, utilization, heatmap])
@pytest.mark.parametrize("width", [300, 1200])
def test_a_layers_name_is_text(figure: Any, width: int, database: Database, run: Run) -> None:
    with database.read() as session:
        check(answer(figure(Source(session, run.job_id), FigureRequest(width=width))))


def test_a_lit_layers_name_is_text_where_rollups_are_drawn(database: Database) -> None:
    found = record_run(database, "rolled up", steps=60)

    def write(session: Any) -> None:
        session.get_one(Job, found.job_id).description = {"layers": [{"name": LINK, "index": 0}]}

    database.writer.run(write)
    with database.read() as session:
        content = answer(timeline(Source(session, found.job_id), FigureRequest(layer=0, step=0, to_step=59)))
    assert content["layout"]["meta"]["level"] == "rollup"
    check(content)


def test_a_jobs_name_is_text(database: Database, run: Run, other: Run) -> None:
    with database.read() as session:
        check(answer(race(session, [run.job_id, other.job_id], FigureRequest()).figure))
        check(answer(compare(session, [run.job_id, other.job_id], "loss", "step", FigureRequest())))
        check(answer(compare(session, [run.job_id, other.job_id], "accuracy", "step", FigureRequest())))
        check(answer(speed_up_figure(Source(session, other.job_id), FigureRequest())))
