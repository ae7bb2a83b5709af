"""What a measurement of the page's answers counts."""

from __future__ import annotations

from tests.e2e.interactions import LEAST_MS, by_kind


def test_a_press_counts_once_by_its_slowest_event_apart_from_moves_of_the_pointer() -> None:
    told = [
        ("pointermove", 0, 9.0),
        ("pointerover", 0, 24.0),
        ("pointerdown", 7, 24.0),
        ("mousedown", 0, 24.0),
        ("click", 7, 48.0),
        ("keydown", 8, 32.0),
        ("keyup", 8, 16.0),
        ("wheel", 0, 12.0),
    ]
    assert by_kind(told, "click") == {"pointer": [9.0], "click": [48.0], "key": [32.0], "wheel": [12.0]}


def test_what_was_done_has_an_answer_also_where_the_browser_tells_of_none() -> None:
    assert by_kind([("pointermove", 0, 9.0)], "click") == {"pointer": [9.0], "click": [LEAST_MS]}
