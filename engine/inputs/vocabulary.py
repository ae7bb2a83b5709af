"""Words of a vocabulary that is trained on the text itself, cached with the text as numbers.

Byte-pair encoding (Sennrich et al., "Neural machine translation of rare words with subword units", 2016) as
SentencePiece trains it; what it has no word for becomes bytes, so no text is lost. Cached under the data directory
(TRAINYARD_DATA_DIR) by the files' paths, sizes and times, the number of words and the library's version: the first
process that asks trains, the others read, and map the same memory. The cache may be deleted at any time.

Cost: about 2 s for the standard library's 11 MB and 10,000 words, 2 s more to write them as numbers.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import UserError

UNKNOWN, BEGIN, END = 0, 1, 2
"""Words that every vocabulary has, as SentencePiece numbers them."""
_LONGEST_LINE = 1 << 20
"""Bytes; longer lines are no lines of words, and do not take part in training."""


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Pieces of text as numbers, each closed by END."""

    tokens: np.ndarray
    """All pieces one behind another, (tokens,) unsigned, mapped from a file."""
    starts: np.ndarray
    """Where each piece begins, and where the last one ends, (pieces + 1,) int64."""


def encoded(
    files: Sequence[Path], kind: str, vocabulary: int, pieces: Callable[[], list[str]], field: str
) -> Encoded:
    """What `pieces()` gives of `files`, as numbers below `vocabulary`; from the cache if it is there.

    `kind` names what `pieces` does with the files. Raises UserError where SentencePiece is not installed, the cache
    cannot be written, on `data.options.vocabulary` for a number of words that the text does not give, and on `field`
    where no vocabulary can be made of it.
    """
    library = _library()
    state = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    key = json.dumps([kind, vocabulary, library.__version__, state])
    folder = _cache() / f"{kind}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    if not folder.is_dir():
        with _alone(folder):
            if not folder.is_dir():  # the process that was here before made it
                _make(folder, library, vocabulary, pieces(), field)
    return Encoded(
        tokens=np.load(folder / "tokens.npy", mmap_mode="r"),
        starts=np.load(folder / "starts.npy", mmap_mode="r"),
    )


def _make(folder: Path, library: Any, vocabulary: int, pieces: list[str], field: str) -> None:
    model = _train(library, vocabulary, pieces, field)
    processor = library.SentencePieceProcessor(model_proto=model)
    kind = np.uint16 if vocabulary <= 1 << 16 else np.uint32
    found = [np.array(processor.encode(piece, add_eos=True), dtype=kind) for piece in pieces]
    starts = np.zeros(len(found) + 1, dtype=np.int64)
    np.cumsum([len(piece) for piece in found], out=starts[1:])
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    try:
        (unfinished / "vocabulary.model").write_bytes(model)
        np.save(unfinished / "tokens.npy", np.concatenate(found))
        np.save(unfinished / "starts.npy", starts)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _train(library: Any, vocabulary: int, pieces: list[str], field: str) -> bytes:
    """The trained vocabulary, as SentencePiece keeps it."""
    model = io.BytesIO()
    try:
        library.SentencePieceTrainer.train(
            sentence_iterator=(line for piece in pieces for line in piece.splitlines() if line),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocabulary,
            byte_fallback=True,
            user_defined_symbols=["\n"],
            # Text is kept as it is: in a program, indentation is meaning.
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True,
            add_dummy_prefix=False,
            max_sentence_length=_LONGEST_LINE,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _explained(str(error), vocabulary, field) from error
    return model.getvalue()


def _explained(message: str, vocabulary: int, field: str) -> UserError:
    """SentencePiece's errors in the words of a job."""
    if most := re.search(r"too high .*value <= (\d+)", message):
        return UserError(
            "data.options.vocabulary",
            vocabulary,
            f"the text gives {most[1]} words at most",
            f"Use {most[1]} or fewer, here and in the model, or give more text",
        )
    if least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return UserError(
            "data.options.vocabulary",
            vocabulary,
            f"bytes and the text's single characters alone are {least[1]} words",
            f"Use {least[1]} or more, here and in the model",
        )
    return UserError(field, None, f"no vocabulary can be made of it: {message}", "Give other text")


def _library() -> Any:
    try:
        import sentencepiece  # noqa: PLC0415 - an extra: only text needs it
    except ModuleNotFoundError as error:
        raise UserError(
            "data.name", "text", "needs SentencePiece, which is not installed", "pip install sentencepiece"
        ) from error
    return sentencepiece


def _cache() -> Path:
    data = os.environ.get("TRAINYARD_DATA_DIR") or "~/.local/share/trainyard"  # as backend/settings.py
    folder = Path(data).expanduser().absolute() / "cache" / "text"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            "data.name",
            str(folder),
            f"the vocabulary's cache cannot be made: {error}",
            "Name a data directory that can be written, in TRAINYARD_DATA_DIR",
        ) from error
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time makes `folder`. The kernel lets go of the lock when its holder dies."""
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
