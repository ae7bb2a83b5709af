"""The same networks, compiled: what is added to a user's file so that `build` compiles the model, or parts of it, and
what their jobs leave alone."""

from __future__ import annotations

import zlib
from dataclasses import replace

from tests.fuzz.grammar.file import File, write
from tests.fuzz.network import Case

_WAYS = (
    "model.compile(backend={backend!r})",
    "for child in model.children():\n    child.compile(backend={backend!r})",
    "for part in list(model.modules())[1::2]:\n    part.forward = torch.compile(part.forward, backend={backend!r})",
)
_BUILD = """

_as_written = build


def build():
    model = _as_written()
{compile}
    return model
"""


_KEPT_ACTIVATIONS = 4
"""Of so many jobs that do something to activations, one does so to compiled code as well."""


def compilable(case: Case) -> Case:
    """The case as it is tried where its network is compiled. Nothing can be done with activations in compiled code, so
    that half of all networks would be refused for the same reason: mostly they are kept."""
    if zlib.crc32(case.key.encode()) % _KEPT_ACTIVATIONS == 0:
        return case
    overrides = [each for each in case.job["overrides"] if "activations" not in each]
    return replace(case, job={**case.job, "overrides": overrides})


def file_of(case: Case, *, compiled: bool, chance: bool = True) -> File:
    """The file of a case's network. Where it is compiled, its key says what of it is, and with which backend.
    `chance`: see `write`."""
    file = write(case.network, case.precision, chance=chance)
    if not compiled:
        return file
    chosen = zlib.crc32(case.key.encode())
    way = _WAYS[chosen % 3].format(backend=("eager", "aot_eager")[chosen // 3 % 2])
    lines = "\n".join(f"    {line}" for line in way.splitlines())
    return replace(file, source=file.source + _BUILD.format(compile=lines))
