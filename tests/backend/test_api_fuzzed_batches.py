"""Batches that are almost right, with the attempt's own token, at a real server: each is taken or refused with its
reason, and whatever was taken, everything that shows the job still answers."""

from __future__ import annotations

import hashlib
import json
import random
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pytest

from backend.db import Database
from backend.figures.registry import FIGURES
from backend.services.benchmark_fill import PER_LAYER, WORKERS, Large, add_large, add_others, worker_step
from engine.telemetry.batch import TABLES, Batch, decode, encode
from tests.backend.live_server import DIRECT, LiveServer
from tests.databases import opened_by

LAYERS, STEPS = 6, 8
TRIES = (pytest.param(60, id="few"), pytest.param(1_000, id="many", marks=pytest.mark.soak))
PREFIX = struct.Struct("<4s32sI")
NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**400, 1e308, float("inf"), float("-inf"),
    float("nan"), "", "x" * 70_000, "a\0b", "\ud800", "für", [], [1], [[]], {}, {"name": 1},
)  # fmt: skip


@pytest.fixture(scope="module")
def served(server_lane: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveServer, Large]]:
    data_dir = tmp_path_factory.mktemp("fuzzed-batches")
    database = Database(opened_by(data_dir))
    add_others(database, 2)
    large = add_large(database, LAYERS, LAYERS * PER_LAYER * WORKERS * STEPS)
    database.close()
    with LiveServer(data_dir, scheduler=False, warm_jobs=True) as server:
        yield server, large


def packed(header: bytes, compressed: bytes) -> bytes:
    """A body whose content hash is right, whatever it holds."""
    content = header + compressed
    digest = hashlib.sha256(len(header).to_bytes(4, "little") + content).digest()
    return PREFIX.pack(b"TYB1", digest, len(header)) + content


def parts(body: bytes) -> tuple[dict[str, Any], bytes]:
    length = PREFIX.unpack_from(body)[2]
    content = body[PREFIX.size :]
    header: dict[str, Any] = json.loads(content[:length])
    return header, content[length:]


def another_header(body: bytes, dice: random.Random) -> bytes:
    """One value of the header, at any depth, is another."""
    header, compressed = parts(body)
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in entries:
            places.append((value, key))
            if isinstance(inner, dict | list):
                walk(inner)

    walk(header)
    holder, key = dice.choice([place for place in places if place[1] != "columns"])
    if isinstance(holder, dict) and dice.random() < 0.15:
        del holder[key]
    else:
        holder[key] = dice.choice(NASTY)
    return packed(json.dumps(header).encode(), compressed)


def other_values(body: bytes, dice: random.Random) -> bytes:
    """Some values of one column are other numbers that its type can hold."""
    batch = decode(body)
    name = dice.choice([name for name in TABLES if len(batch.table(name))])
    rows = batch.table(name).copy()
    column = dice.choice(rows.dtype.names or ())
    kind = rows.dtype[column]
    values: list[Any] = [np.nan, np.inf, -np.inf, 1e308]
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        values = [limits.min, limits.max, 0, -1 if limits.min else 255, limits.max // 2, 1]
    rows[column][dice.sample(range(len(rows)), dice.choice((1, len(rows))))] = dice.choice(values)
    fields = {field: getattr(batch, field) for field in Batch.__dataclass_fields__}
    with np.errstate(over="ignore"):
        return encode(Batch(**{**fields, "tables": {**batch.tables, name: rows}}))


def with_staleness(body: bytes) -> bytes:
    """And the server beside this worker has applied stale contributions."""
    batch = decode(body)
    rows = np.array(
        [(7, layer, layer % WORKERS, layer, 1 + layer) for layer in range(LAYERS)], TABLES["staleness"]
    )
    return encode(replace(batch, tables={**batch.tables, "staleness": rows}))


def cut(body: bytes, dice: random.Random) -> bytes:
    return body[: dice.randrange(len(body))]


def flipped(body: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(body))
    return body[:at] + bytes([body[at] ^ 1 << dice.randrange(8)]) + body[at + 1 :]


def other_columns(body: bytes, dice: random.Random) -> bytes:
    """What is compressed is another length, or no zlib at all, under a right hash."""
    header, compressed = parts(body)
    raw = zlib.decompress(compressed)
    chosen = dice.choice((raw, b"", zlib.compress(raw[:-1]), zlib.compress(raw + b"x"), compressed[:-5]))
    return packed(json.dumps(header).encode(), chosen)


def no_header(body: bytes, dice: random.Random) -> bytes:
    text = dice.choice(
        (b"[" * 100_000, b"[]", b"null", b"{}", b"\xff\xfe", b'{"attempt": ' + b"9" * 5_000 + b"}")
    )
    return packed(text, parts(body)[1])


WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(3 * (another_header, other_values)), cut, flipped, other_columns, no_header,
)  # fmt: skip


@pytest.mark.parametrize("tries", TRIES)
def test_a_batch_that_is_almost_right_is_taken_or_refused(
    served: tuple[LiveServer, Large], tries: int
) -> None:
    server, large = served
    dice, answers = random.Random(0), Counter[int]()
    headers = {"Authorization": f"Bearer {large.token}", "Content-Type": "application/octet-stream"}
    post = f"/api/v1/attempts/{large.attempt}/batches"
    with httpx.Client(base_url=server.url, timeout=60, **DIRECT) as http:
        for number in range(tries):
            step = STEPS + number
            way = dice.choice(WAYS)
            body = way(with_staleness(worker_step(large, number % WORKERS, step, step)), dice)
            answer = http.post(post, content=body, headers=headers)
            assert answer.status_code in {200, 400, 409}, (number, way.__name__, answer.text)
            if answer.status_code != 200:
                assert answer.headers["content-type"] == "application/problem+json"
            answers[answer.status_code] += 1
        assert min(answers[200], answers[400]) > tries // 10, "almost right ones were among both"
        right = worker_step(large, 0, STEPS + tries, STEPS + tries)
        assert http.post(post, content=right, headers=headers).status_code == 200
        job = f"/api/v1/jobs/{large.job_id}"
        about = ("", "/summary", "/staleness", "/metrics", "/metrics/names", "/events", "/trace", "/plan")
        for path in (
            "/api/v1/jobs", *(f"{job}{part}" for part in about), *(f"{job}/figures/{name}" for name in FIGURES)
        ):  # fmt: skip
            assert http.get(path).status_code == 200, path
