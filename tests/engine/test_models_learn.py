"""Models of words learn: small ones of the published kinds, on words."""

import json

import numpy as np
import pytest
import torch

from engine.inputs.registry import load
from engine.inputs.sharding import global_batch_at
from engine.inputs.task import classification, weight
from engine.models.registry import build

WORDS = {"source_vocabulary": 12, "target_vocabulary": 12}
CASES = {
    "attention-nmt": (
        60,
        {"vocabulary": 12, "layers": 2, "hidden": 24},
        ("synthetic-tokens", {**WORDS, "length": 5, "samples": 400, "test_samples": 100}),
    ),
    "gpt": (
        120,
        {"vocabulary": 400, "context": 12, "layers": 2, "hidden": 32, "heads": 4},
        ("text", {"paths": [json.__path__[0]], "pattern": "*.py", "vocabulary": 400, "steps": 12}),
    ),
    "lstm-lm": (
        250,
        {"vocabulary": 400, "layers": 2, "hidden": 32},
        ("text", {"paths": [json.__path__[0]], "pattern": "*.py", "vocabulary": 400, "steps": 12}),
    ),
    "sockeye-shape": (
        60,
        {**WORDS, "embedding": 16, "hidden": 24},
        ("synthetic-tokens", {**WORDS, "length": 5, "samples": 400, "test_samples": 100}),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_words_never_seen_are_expected_better_than_by_their_frequency(name):
    steps, options, (data_name, data_options) = CASES[name]
    torch.manual_seed(0)
    model, data = build(name, options), load(data_name, data_options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    for step in range(steps):
        inputs, targets = data.train.batch(global_batch_at(step, len(data.train), 40, 1))
        optimizer.zero_grad()
        (classification(model, inputs, targets).total / weight(targets)).backward()
        optimizer.step()
    inputs, targets = data.test.batch(np.arange(len(data.test)))
    with torch.no_grad():
        found = float(classification(model, inputs, targets).total) / weight(targets)
    seen = data.train.batch(np.arange(len(data.train)))[1].flatten()
    frequency = (1 + torch.bincount(seen, minlength=data.classes)) / (len(seen) + data.classes)
    assert found < 0.9 * float(-frequency.log()[targets].mean())
