"""What somebody else has put into the folder of a job's checkpoints: a user's code may write there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.checkpoint import part as parts
from engine.checkpoint.store import MANIFEST, kept
from tests.engine.test_checkpoint_store import NAMES, steps_in, store_of, write


def strange_folder(path: Path) -> None:
    path.mkdir()
    (path / MANIFEST).mkdir()


@pytest.mark.parametrize("put", [Path.touch, os.mkfifo, Path.mkdir, strange_folder])
@pytest.mark.parametrize("step", [1, 12, 99])
def test_what_a_users_code_has_put_in_the_place_of_one_is_skipped_and_removed(
    put: Callable[[Path], None], step: int, tmp_path: Path
) -> None:
    store = store_of(tmp_path)
    write(store, 3)
    put(store.place(step))
    assert store.begin(NAMES) == 3
    assert steps_in(tmp_path) == [3]


@pytest.mark.parametrize("name", ["step-²", "step-٧", "step-7", "step-", "step-00000000099", "0000000099"])
def test_what_is_named_otherwise_is_none(name: str, tmp_path: Path) -> None:
    store = store_of(tmp_path)
    write(store, 3)
    (tmp_path / name).mkdir()
    assert store.begin(NAMES) == 3
    assert (tmp_path / name).exists()


def test_a_part_that_is_longer_than_was_written_is_not_read(tmp_path: Path) -> None:
    """It may have gaps, and take for ever."""
    store = store_of(tmp_path)
    write(store, 3)
    with (store.place(3) / "worker-0.safetensors").open("ab") as file:
        file.truncate(2**42)
    assert store.begin(NAMES) is None


def test_nothing_is_removed_where_none_is_whole_any_more(tmp_path: Path) -> None:
    """As where the job is deleted while it is written."""
    store = store_of(tmp_path)
    write(store, 3, complete=False)
    write(store, 4, complete=False)
    store._prune()
    assert steps_in(tmp_path) == [3, 4]


@pytest.mark.parametrize(
    "said",
    [
        "[]",
        "[" * 9_999,
        '{"step": 1e999, "parts": {}}',
        '{"step": 3, "parts": {"x": {"bytes": 1e999}}}',
        '{"step": 3, "parts": 7}',
    ],
)
def test_what_its_manifest_cannot_mean_is_none(said: str, tmp_path: Path) -> None:
    store = store_of(tmp_path)
    write(store, 3)
    write(store, 4)
    (store.place(3) / MANIFEST).write_text(said)
    assert [each.step for each in kept(tmp_path)] == [4]


HEADERS = {
    "nothing": b"",
    "an endless header": (2**63).to_bytes(8, "little") + b"{}",
    "a long header": (2**40).to_bytes(8, "little") + b"{}",
    "a list": b"[]",
    "a deep list": b"[" * 100_000,
    "texts": b'{"__metadata__": 7}',
    "no type": b'{"x": {"shape": [1]}}',
    "another type": b'{"x": {"dtype": "Q", "shape": [1]}}',
    "a text": b'{"x": "F32"}',
    "less than none": b'{"x": {"dtype": "F32", "shape": [-1, -1]}}',
    "no shape": b'{"x": {"dtype": "F32", "shape": ["a"]}}',
    "a large tensor": b'{"x": {"dtype": "F32", "shape": [1099511627776]}}',
    "an endless tensor": b'{"x": {"dtype": "F32", "shape": [9223372036854775808]}}',
}


@pytest.mark.parametrize("what", HEADERS)
def test_a_file_of_another_kind_is_refused(what: str, tmp_path: Path) -> None:
    content = HEADERS[what]
    header = content if "header" in what or not content else len(content).to_bytes(8, "little") + content
    (tmp_path / "part").write_bytes(header)
    with pytest.raises(ValueError, match=r"/part (ends within|has a header that says nothing)"):
        parts.read(tmp_path / "part")
