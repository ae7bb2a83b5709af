"""A ranking as a page shows it, beside what the service says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from backend.client import Client

if TYPE_CHECKING:
    from playwright.sync_api import Page


def expect_ranked(
    page: Page, client: Client, race: str, members: Collection[str], rates: Sequence[str | None] = (None,)
) -> None:
    """A place for each of these members at each rate, after three rounds, in the order of the service."""
    rankings = client.standings(race).rankings
    assert [ranking.rate for ranking in rankings] == list(rates)
    for ranking, shown in zip(rankings, page.get_by_test_id("ranking").all(), strict=True):
        placed = [standing for standing in ranking.standings if standing.rank]
        assert {standing.name for standing in placed} == set(members)
        assert all(standing.rounds == 3 for standing in placed)
        rows = shown.get_by_test_id("standing")
        expect(rows).to_have_count(len(members))
        for row, standing in zip(rows.all(), placed, strict=True):
            expect(row.get_by_role("cell").first).to_contain_text(str(standing.rank))
            expect(row).to_contain_text(standing.name)
        expect(shown.get_by_test_id("ranking-sentence")).to_have_text(ranking.sentence)
        gains = [f"{ranking.gains}."] if ranking.gains else []
        expect(shown.get_by_test_id("ranking-gains")).to_have_text(gains)
    expect(page.get_by_test_id("limit")).to_have_count(len(members) * len(rates))
