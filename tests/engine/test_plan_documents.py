"""Texts of strangers: what one may cost is bounded while it is parsed, with either parser of YAML."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UserError
from engine.plan import bounded_yaml
from engine.plan.documents import load_file, load_object, load_text
from engine.plan.job import JobSpec
from engine.plan.limits import JOB, Limits
from engine.plan.serde import to_plain
from engine.profile import read
from engine.profile.profile import LayerTime, Profile

MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 25))
"""Sixteen million pairs in less than 700 bytes."""
DEEP_ALIASES = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 80))
BOMBS = {
    "merges": (MERGES, r"holds more than 10,000 values, with what aliases and merges .* \(line 1\d\)"),
    "many values": (f"a: [{','.join('1' * 400_000)}]", r"holds more than 10,000 values.* \(line 1\)"),
    "many names": ("{" + ",".join(f"k{n}: " for n in range(90_000)) + "}", "holds more than 10,000 values"),
    "deep lists": ("[" * 500_000, r"nested deeper than 64 levels.* \(line 1\)"),
    "deep names": ("? " * 500_000, "nested deeper than 64 levels"),
    "deep aliases": (DEEP_ALIASES, "nested deeper than 64 levels"),
    "in itself": ("a: &a [*a]", "holds more than 10,000 values"),
    "merged into itself": ("a: &a {<<: *a}", "holds more than 10,000 values"),
    "digits": (f"a: {'9' * 4_000}", r"a number of 4,000 characters, and the most are 100 \(line 1\)"),
    "sexagesimal": (f"x: y\na: 1{':1' * 400_000}", r"a number of 800,001 characters.* \(line 2\)"),
    "size": (f"a: {'x' * 2**20}", "is longer than 1,048,576 bytes"),
}
NOT_WHAT_THEY_SAY = (
    "!!int ''",
    "!!float ''",
    "!!bool maybe",
    "!!timestamp soon",
    "{[1]: 2}",
    "!!binary ü",
    "!x y",
)


@pytest.fixture(params=bounded_yaml.LOADERS, ids=lambda loader: loader.__name__)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type:
    """Each of the parsers, of which a machine may have one only."""
    monkeypatch.setattr(bounded_yaml, "LOADERS", (request.param,))
    return request.param


@pytest.fixture
def little_room() -> Iterator[None]:
    """For what the test allocates beyond what there is: half a gigabyte."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 2**29, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("loader", "little_room")
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_text_beyond_a_limit_is_refused_with_the_limit(bomb: str) -> None:
    text, rule = BOMBS[bomb]
    for read_it in (load_text, load_object):
        with pytest.raises(UserError, match=rule) as caught:
            read_it(text, "job.yaml")
        assert caught.value.value == "job.yaml"
        assert caught.value.remedy


@pytest.mark.usefixtures("little_room")
def test_no_more_is_parsed_than_a_limit_allows(loader: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count is held while events come, so the rest of a text is not even looked at."""
    seen = 0
    ask: Callable[..., Any] = loader.get_event  # type: ignore[attr-defined]

    def counting(self: Any) -> Any:
        nonlocal seen
        seen += 1
        return ask(self)

    monkeypatch.setattr(loader, "get_event", counting, raising=False)
    with pytest.raises(UserError):
        load_text("[" + "1," * 400_000 + "]", "job.yaml")
    assert seen <= JOB.values + 3


@pytest.mark.usefixtures("loader")
def test_a_text_within_the_limits_is_read() -> None:
    common = "base: &base {lr: 1e-3, steps: 3}\n"
    assert load_text(common + "a: {<<: *base, steps: 4}\nb: [*base, *base]", "x") == {
        "base": {"lr": 0.001, "steps": 3},
        "a": {"lr": 0.001, "steps": 4},
        "b": [{"lr": 0.001, "steps": 3}] * 2,
    }
    most = [0] * (JOB.values - 1)
    assert load_text(json.dumps(most), "x") == most
    nested = "[" * 63 + "1" + "]" * 63
    assert load_text(nested, "x") == json.loads(nested)
    assert load_text(f"a: {'9' * 100}\nb: '{'9' * 4_000}'", "x") == {"a": int("9" * 100), "b": "9" * 4_000}


def test_a_character_in_two_escapes_is_read_from_json() -> None:
    assert load_object('{"name": "\\ud83d\\ude82"}', "x") == {"name": "\U0001f682"}
    assert load_object('{"lr": NaN}', "x") == {"lr": "NaN"}  # no JSON, and a text in YAML


@pytest.mark.usefixtures("loader")
def test_what_an_alias_names_counts_each_time() -> None:
    text = "a: &a [1, 2, 3]\nb: *a\nc: {<<: {x: *a}}\n"
    holds = 1 + 3 * 4 + 2  # the whole, the list three times, the mapping and what it merges
    assert load_text(text, "x", Limits(size=100, values=holds))["c"] == {"x": [1, 2, 3]}
    with pytest.raises(UserError, match=f"more than {holds - 1} values"):
        load_text(text, "x", Limits(size=100, values=holds - 1))


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("value", NOT_WHAT_THEY_SAY)
def test_a_tag_that_does_not_fit_its_text_is_an_error_of_the_text(value: str) -> None:
    with pytest.raises(UserError, match=r"neither YAML nor JSON: .+"):
        load_text(f"a: {value}", "job.yaml")


def test_a_file_is_read_no_further_than_its_limit(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        os.truncate(file.fileno(), 2**40)
    with pytest.raises(UserError, match="is longer than 1,048,576 bytes"):
        load_file(JobSpec, large)
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(UserError, match="is a pipe, and no regular file"):
        load_file(JobSpec, tmp_path / "pipe.yaml")
    with pytest.raises(UserError, match="is a device, and no regular file"):
        load_file(JobSpec, Path("/dev/zero"))


def test_a_profile_of_ten_thousand_layers_is_read(tmp_path: Path) -> None:
    layers = tuple(LayerTime(layer=f"layer.{n}", forward_s=1e-3, backward_s=2e-3) for n in range(10_000))
    profile = Profile(
        model="deep", checksum="0", device="cpu", hardware="x", source="measured", batch=1, layers=layers
    )
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(to_plain(profile), indent=1))
    assert read(path) == profile
