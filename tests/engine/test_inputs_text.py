"""Text: nothing of it is lost, nothing is invented, padding weighs nothing, and bad input says what is wrong."""

import os
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch

from engine.errors import UserError
from engine.inputs import text_files
from engine.inputs.loader import Loader
from engine.inputs.registry import load
from engine.inputs.source import TensorSource
from engine.inputs.task import IGNORED, classification, weight
from engine.inputs.vocabulary import BEGIN, END
from engine.plan.inputs import Input
from engine.plan.job import EvaluationSpec, TrainingSpec
from tests.words import write_text

VOCABULARY = 320


@pytest.fixture
def text(tmp_path: Path) -> Path:
    write_text(tmp_path / "a.txt", 150)
    write_text(tmp_path / "b.txt", 40, seed=1)
    (tmp_path / "c.bin").write_bytes(b"\xff\xfe\x00")
    return tmp_path


def options(folder: Path, **changes: object) -> dict[str, object]:
    return {"paths": [str(folder)], "pattern": "*.txt", "vocabulary": VOCABULARY, **changes}


def cached() -> list[Path]:
    return sorted((Path(os.environ["TRAINYARD_DATA_DIR"]) / "cache" / "text").glob("*-*[!k]"))


def decoder(folder: Path) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "vocabulary.model"))


def everything(source):
    return source.batch(np.arange(len(source)))


def test_windows_are_the_whole_text_and_targets_are_the_next_words(text):
    before = cached()
    data = load("text", options(text, steps=8, test_share=0.25))
    (folder,) = set(cached()) - set(before)
    parts = [everything(part) for part in (data.train, data.test)]
    assert len(parts[1][0]) == (len(parts[0][0]) + len(parts[1][0])) // 4
    # Every fourth window is a test window.
    rows = []
    train, test = (list(inputs) for inputs, _ in parts)
    while train or test:
        rows.append((test if len(rows) % 4 == 3 and test else train).pop(0))
    words = torch.cat(rows)
    whole = "".join(decoder(folder).decode(part.tolist()) for part in _split(words))
    expected = "".join((text / name).read_text() for name in ("a.txt", "b.txt"))
    assert expected.startswith(whole)
    assert len(expected) - len(whole) < 8 * 12  # what does not fill a window
    for inputs, targets in parts:
        assert torch.equal(inputs[:, 1:], targets[:, :-1])
    following = torch.cat([row[:1] for row in rows[1:]])
    last = torch.cat([words_[-1:] for words_ in _targets_in_order(parts, len(rows))])
    assert torch.equal(last[:-1], following)


def _split(words):
    """Between end marks."""
    ends = (words == END).nonzero().flatten().tolist()
    return [words[a:b] for a, b in zip([0, *(e + 1 for e in ends)], [*ends, len(words)], strict=True)]


def _targets_in_order(parts, count):
    train, test = (list(targets) for _, targets in parts)
    return [(test if number % 4 == 3 and test else train).pop(0) for number in range(count)]


def test_a_vocabulary_is_trained_once_and_again_when_the_text_changes(text):
    first = load("text", options(text, steps=8))
    made = cached()
    times = [path.stat().st_mtime_ns for path in made]
    again = load("text", options(text, steps=8))
    assert [path.stat().st_mtime_ns for path in cached()] == times
    assert torch.equal(everything(first.train)[0], everything(again.train)[0])
    load("text", options(text, steps=5))  # other windows of the same words
    assert cached() == made
    write_text(text / "a.txt", 160)
    load("text", options(text, steps=8))
    assert len(cached()) == len(made) + 1


def test_a_pattern_chooses_among_the_standard_librarys_sources_too():
    every, some = text_files.find((), "*", "paths"), text_files.find((), "a*.py", "paths")
    assert 0 < len(some) < len(every)
    assert some == [path for path in every if path.name.startswith("a")]
    with pytest.raises(
        UserError, match=r"data.options.pattern = '\*.txt': no source of Python's standard library"
    ):
        text_files.find((), "*.txt", "paths")


def test_pairs_are_a_line_and_the_next_one_padded_to_the_longest(text):
    before = cached()
    data = load("text-pairs", options(text, length=14))
    (folder,) = set(cached()) - set(before)
    decode = decoder(folder)
    found = []
    for source in (data.train, data.test):
        for index in range(len(source)):
            inputs, targets = source.batch(np.array([index]))
            read, moved = inputs[0]
            assert inputs.shape == (1, 2, max((read >= 0).sum(), (targets >= 0).sum()))
            counted = targets[0][targets[0] != IGNORED]
            assert source.target_count(np.array([index])) == len(counted) <= 14
            assert moved[0] == BEGIN
            assert torch.equal(moved[1 : len(counted)], counted[:-1])
            assert (moved[len(counted) :] == -1).all()
            assert read[read >= 0][-1] == counted[-1] == END
            found.append((decode.decode(read[read >= 0].tolist()), decode.decode(counted.tolist())))
    lines = [(text / name).read_text().splitlines() for name in ("a.txt", "b.txt")]
    pairs = [(a, b) for part in lines for a, b in pairwise(part) if a and b]
    assert set(found) <= set(pairs)
    assert 20 < len(found) < len(pairs)  # the longer ones are left out
    # Of a batch, every row is as it is alone, and the rest is padding.
    inputs, targets = data.train.batch(np.arange(6))
    alone, wanted = data.train.batch(np.array([4]))
    assert torch.equal(inputs[4, :, : alone.shape[2]], alone[0])
    assert (inputs[4, :, alone.shape[2] :] == -1).all()
    assert (targets[4, wanted.shape[1] :] == IGNORED).all()
    assert data.train.target_count(np.arange(6)) == weight(targets)
    assert data.train.batch(np.array([data.example]))[0].shape == (1, *data.input_shape)


def test_translations_are_lines_of_the_same_number(text):
    sides = [write_text(text / name, 60, seed) for name, seed in (("en.txt", 5), ("vi.txt", 6))]
    (text / "vi.txt").write_text(
        (text / "vi.txt").read_text().rstrip("\n")
    )  # with or without a last line's end
    before = cached()
    named = {"paths": [str(text / "en.txt")], "targets": [str(text / "vi.txt")]}
    data = load("text-pairs", options(text, length=40, **named))
    (folder,) = set(cached()) - set(before)
    decode = decoder(folder)
    inputs, targets = everything(data.train)
    pairs = {
        (decode.decode(row[row >= 0].tolist()), decode.decode(target[target >= 0].tolist()))
        for row, target in zip(inputs[:, 0], targets, strict=True)
    }
    assert pairs <= set(zip(*sides, strict=True))
    write_text(text / "vi.txt", 61, 6)
    with pytest.raises(UserError, match=r"targets.*: 62 lines for 61 lines of `paths`"):
        load("text-pairs", options(text, **named))


def test_padding_has_no_loss_and_no_weight():
    logits = torch.randn(2, 5, 3)
    targets = torch.tensor([[1, 2, 3], [4, IGNORED, IGNORED]])
    found = classification(lambda _: logits, torch.zeros(2), targets)
    first = classification(lambda _: logits[:1], torch.zeros(1), targets[:1])
    second = classification(lambda _: logits[1:, :, :1], torch.zeros(1), targets[1:, :1])
    torch.testing.assert_close(found.total, first.total + second.total)
    assert int(found.correct) == int(first.correct) + int(second.correct)
    assert weight(targets) == 4
    assert weight(torch.full((3,), float(IGNORED))) == 3


def loader(source, rank, **training):
    return Loader(
        source,
        training=TrainingSpec(steps=3, global_batch=7, seed=2, **training),
        evaluation=EvaluationSpec(),
        rank=rank,
        workers=3,
        device=torch.device("cpu"),
        input=Input(prefetch=0),
        dtype=None,
        filler=False,
    )


def test_workers_agree_on_the_weight_of_a_step_and_have_it_together(text):
    data = load("text-pairs", options(text, length=14))
    for parts in zip(*(loader(data.train, rank, micro_batches=2) for rank in range(3)), strict=True):
        assert len({part.global_weight for part in parts}) == 1
        assert sum(part.weight for part in parts) == parts[0].global_weight
        for part in parts:
            assert part.weight == sum(weight(m.targets) for m in part.micro_batches)
    assert len({part.weight / sum(m.samples for m in part.micro_batches) for part in parts}) == 3  # uneven


def test_ignored_targets_that_nobody_counts_are_refused():
    source = TensorSource(torch.zeros(9, 2), torch.full((9, 2), IGNORED))
    with pytest.raises(UserError, match=r"TensorSource.*Give it a method target_count"):
        next(iter(loader(source, 0)))


def test_wrong_files_are_named(text):
    for paths, expected in (
        ([str(text / "no.txt")], r"no.txt.*is neither a file nor a folder"),
        ([str(text / "c.bin")], r"c.bin.*cannot be read as UTF-8"),
        (["a.txt"], r"paths = 'a.txt': is not an absolute path"),
    ):
        with pytest.raises(UserError, match=expected):
            load("text", options(text, paths=paths))
    with pytest.raises(UserError, match=r"has no file that matches '\*.md'"):
        load("text", options(text, pattern="*.md"))
    (text / "empty.txt").write_text(" \n\n")
    with pytest.raises(UserError, match=r"empty.txt.*holds no text"):
        load("text", options(text, paths=[str(text / "empty.txt")]))
    with pytest.raises(UserError, match="needs `paths` to translate"):
        load("text-pairs", {"targets": [str(text)]})


def test_a_vocabulary_that_the_text_does_not_give_is_refused_with_one_that_it_does(text):
    with pytest.raises(UserError, match=r"vocabulary = 90000: the text gives (\d+) words at most") as caught:
        load("text", options(text, vocabulary=90_000, steps=8))
    most = int(re.search(r"gives (\d+)", str(caught.value))[1])
    assert load("text", options(text, vocabulary=most, steps=8)).classes == most
    with pytest.raises(UserError, match=r"vocabulary = 100: bytes and .* are (\d+) words") as caught:
        load("text", options(text, vocabulary=100))
    least = int(re.search(r"are (\d+) words", str(caught.value))[1])
    assert load("text", options(text, vocabulary=least, steps=8)).classes == least


def test_too_little_text_is_refused(text):
    with pytest.raises(UserError, match=r"steps = 5000: the text's \d+ words do not give two windows"):
        load("text", options(text, steps=5000))
    with pytest.raises(UserError, match=r"length = 2: \d of \d+ pairs of lines have at most that many words"):
        load("text-pairs", options(text, length=2))


def test_too_much_text_is_refused(text, monkeypatch):
    monkeypatch.setattr(text_files, "MOST_BYTES", 100)
    with pytest.raises(UserError, match="hold more than 0 MiB up to here"):
        load("text", options(text))
