"""Whole numbers in addresses are written in one way."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from fastapi import FastAPI

from backend.api.numbers import WRITTEN
from tests.backend.guarded import admin, refused
from tests.backend.test_api_access import OPERATIONS, filled

ODD = ("+4", "01", "1_0", " 4", "4 ", "4.0", "-0", "--1", "", "٤", "1e3", "0x4", "four")


def test_how_a_number_is_written() -> None:
    assert all(WRITTEN.fullmatch(text) for text in ("0", "7", "10", "-7", "9" * 30))
    assert not any(WRITTEN.fullmatch(text) for text in (*ODD, "4\n"))


def _whole(parameter: dict[str, object]) -> bool:
    schema = parameter["schema"]
    assert isinstance(schema, dict)
    return "integer" in {schema.get("type"), *(each.get("type") for each in schema.get("anyOf", ()))}


ASKED = [
    (method, path, str(parameter["name"]), parameter["in"] == "path")
    for method, path, operation in OPERATIONS
    for parameter in operation.get("parameters", ())
    if parameter["in"] in ("path", "query") and _whole(parameter)
]
"""Every whole number of every address, as the document has them."""
IN_PATHS = {f"{{{name}}}" for _, _, name, in_path in ASKED if in_path}


def test_every_whole_number_of_every_address_is_written_so(guarded: FastAPI) -> None:
    """`/tokens/+4` would be another spelling of `/tokens/4`."""
    assert len(ASKED) > 20
    client = admin(guarded)
    for method, path, name, in_path in ASKED:
        for odd in ("+4", "01", "1_0"):
            address = path.replace(f"{{{name}}}", quote(odd)) if in_path else f"{path}?{name}={quote(odd)}"
            for other in IN_PATHS:
                address = address.replace(other, "1")
            answer = client.request(method, filled(address), content=b"{}")
            assert f"{name} = '{odd}': is no whole number" in refused(answer, 422), (method, address)


@pytest.mark.parametrize("odd", [odd for odd in ODD if odd])
def test_a_token_has_one_address(guarded: FastAPI, odd: str) -> None:
    answer = admin(guarded).delete(f"/api/v1/tokens/{quote(odd)}")
    assert "is no whole number" in refused(answer, 422)
