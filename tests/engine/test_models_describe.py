"""Descriptions, and the short process that makes them; users' own models, good and bad."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from engine.errors import UserError
from engine.inputs.build import load_dataset
from engine.inputs.entrypoint import defaults
from engine.inputs.task import BatchLoss, UserLoss
from engine.models.describe import describe, describe_request
from engine.models.fit import fitted
from engine.models.registry import model
from engine.plan.description import Factors, ModelDescription
from engine.plan.job import SourceSpec
from engine.plan.serde import from_plain
from tests.plans import described

DIGITS = {"name": "digits"}


def test_a_description_is_the_same_on_meta_and_on_values():
    entry = model("bn-cnn")
    real = describe(entry.build(), torch.randn(2, 1, 8, 8), torch.zeros(2, dtype=torch.int64), "bn-cnn")
    assert real == described("bn-cnn")
    assert real.buffer_bytes == 2 * (2 * 32 * 4 + 8)


class _Queries(nn.Module):
    """Beside each sample's own row a layer of four learned queries, whatever the number of samples."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.zeros(4, 8))
        self.ask = nn.Linear(8, 10)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x.flatten(1)) + self.ask(self.queries).sum(0)


def test_a_layer_whose_rows_do_not_grow_with_the_samples_has_no_factors():
    found = describe(_Queries(), torch.randn(2, 1, 8, 8), torch.zeros(2, dtype=torch.int64), "queries")
    assert found.layer("head").factors == Factors(rows=1, inputs=64, outputs=10)
    assert found.layer("ask").factors is None


def test_a_loss_that_looks_at_values_in_an_evaluation_needs_values():
    def task(model, inputs, targets):
        scores = model(inputs)
        total = functional.cross_entropy(scores, targets, reduction="sum")
        return BatchLoss(total, None if model.training else int((scores.argmax(1) == targets).sum()))

    loss, batch = UserLoss(task, "test"), (torch.randn(2, 64), torch.zeros(2, dtype=torch.int64))

    def described(device: str) -> list[str]:
        with torch.device(device):
            model = nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 10))
        on_device = (tensor.to(device) for tensor in batch)
        return [cut.layer for cut in describe(model, *on_device, "test", loss).cuts if not cut.refused]

    with pytest.raises(RuntimeError, match="meta"):
        described("meta")
    assert described("cpu") == ["1"]


SOCKEYE = {"source_vocabulary": 9, "target_vocabulary": 12, "embedding": 4, "hidden": 4}
NMT = {"vocabulary": 15, "layers": 1, "hidden": 4}


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [("sockeye-shape", SOCKEYE, "source_vocabulary"), ("attention-nmt", NMT, "vocabulary")],
)
def test_a_model_that_knows_fewer_words_than_the_data_have_is_refused(name, options, field):
    data = {
        "name": "synthetic-tokens",
        "options": {"source_vocabulary": 16, "target_vocabulary": 12, "length": 3},
    }
    with pytest.raises(UserError, match=r"the data have 16 words there\. Set it to 16 or more") as caught:
        describe_request({"model": {"name": name, "options": options}, "data": data})
    assert caught.value.field == f"model.options.{field}"
    assert (
        describe_request({"model": {"name": name, "options": options | {field: 16}}, "data": data}).samples
        == 1024
    )


GOOD = """
import torch
from torch import nn

def build(width=4):
    print("hello from user code")
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))

class LooksAtValues(nn.Sequential):
    def forward(self, x):
        return super().forward(x if x.sum().item() > 0 else -x)

def looks():
    return LooksAtValues(nn.Flatten(), nn.Linear(64, 10))

def fails():
    raise RuntimeError("no such luck")

def wrong_shape():
    return nn.Linear(3, 10)

def wrong_layer():
    return nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(16, 10)))

class Doubles(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(64, 10)

    def forward(self, x):
        return self.inner(torch.cat([x, x], 1))

def wrong_own():
    return nn.Sequential(nn.Flatten(), Doubles())

def keeps(width=64, *, deep=(1, 2), name="it", kind=nn.Linear, nothing=None, bias):
    return kind(width, 10)

class Net(nn.Sequential):
    def __init__(self, width=8):
        super().__init__(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, 10))

def no_model():
    return 7

NUMBER = 3
"""


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    # A module of its own name per test: Python imports each name once per process.
    (tmp_path / f"net_{abs(hash(request.node.name))}.py").write_text(GOOD)
    return tmp_path


def ask(folder: Path, function: str, **options: object) -> ModelDescription:
    module = next(folder.glob("net_*.py")).stem
    source = {"entrypoint": f"{module}:{function}", "directory": str(folder), "options": options}
    return describe_request({"model": source, "data": DIGITS})


def test_a_users_own_model_is_described(folder):
    found = ask(folder, "build", width=7)
    assert [layer.kind for layer in found.layers] == ["Linear", "Linear"]
    assert found.parameter_count == 65 * 7 + 8 * 10


def test_what_a_users_function_takes_for_what_is_left_out_is_kept(folder):
    assert ask(folder, "build").defaults == ask(folder, "build", width=5).defaults == {"model": {"width": 4}}
    assert ask(folder, "Net").defaults == {"model": {"width": 8}}, "a class is called, too"
    assert ask(folder, "looks").defaults == {}
    module = next(folder.glob("net_*.py")).stem
    keeps = SourceSpec(entrypoint=f"{module}:keeps", directory=str(folder))
    assert defaults(keeps, "model") == {"width": 64, "deep": [1, 2], "name": "it", "nothing": None}
    assert defaults(SourceSpec(name="mlp"), "model") == {}, "the catalogue says its own"
    found = ask(folder, "build")
    assert ModelDescription.from_dict(found.to_dict()) == found


def test_a_model_that_looks_at_values_is_described_on_the_cpu(folder):
    assert ask(folder, "looks").parameter_count == 650


@pytest.mark.parametrize(
    ("function", "module", "place"),
    [
        ("wrong_layer", "1.2", ". Correct"),
        ("wrong_own", "1.inner", r" \(net_\d+\.py, line \d+, in forward: `return self\.inner.*`\)\. Correct"),
    ],
)
def test_a_shape_that_does_not_fit_names_the_layer_that_it_does_not_fit(folder, function, module, place):
    """In a Sequential no line of the user's own is on the way."""
    said = rf"targets \(2,\), in module {module}, a Linear: RuntimeError: mat1 and mat2 shapes .*\){place}"
    with pytest.raises(UserError, match=said):
        ask(folder, function)


def test_a_model_that_fails_in_no_layer_names_none(folder):
    with pytest.raises(UserError, match=r"cannot be multiplied \(\d+x\d+ and 3x10\)\. Correct"):
        ask(folder, "wrong_shape")


@pytest.mark.parametrize(
    ("function", "options", "expected"),
    [
        (
            "fails",
            {},
            r"RuntimeError: no such luck \(net_\d+\.py, line 17, in fails: `raise RuntimeError\(.*\)`\)\. Correct",
        ),
        ("build", {"depth": 3}, "unexpected keyword argument 'depth'"),
        (
            "wrong_shape",
            {},
            r"its loss fails on inputs \(2, 1, 8, 8\) and targets \(2,\): RuntimeError: mat1 and mat2",
        ),
        ("no_model", {}, "returned a int, not a torch.nn.Module"),
        ("missing", {}, "has no 'missing'. It has: .*build"),
        ("NUMBER", {}, "cannot be called"),
    ],
)
def test_errors_of_a_users_model_name_the_cause(folder, function, options, expected):
    with pytest.raises(UserError, match=expected):
        ask(folder, function, **options)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def build(:\n", r"its import fails: SyntaxError: .* \(NAME\.py, line 1: `def build\(:`\)"),
        (
            "import torch\nassert torch.nn is None\n",
            r"AssertionError \(NAME\.py, line 2: `assert torch.nn is None`\)",
        ),
        (
            "import torch\n\ndef build():\n    return torch.nn.Linear(3, -1)\n",
            r"RuntimeError: .*negative dimension.* \(NAME\.py, line 4, in build: `return torch.nn.Linear\(3, -1\)`\)",
        ),
        (
            "from torch import nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.head = nn.Linear(3, 10)\n    def forward(self, x):\n        return self.head(x.flatten(1))\n"
            "build = Net\n",
            r"mat1 and mat2 .* \(NAME\.py, line 8, in forward: `return self.head\(x.flatten\(1\)\)`\)",
        ),
    ],
)
def test_errors_of_a_users_code_name_its_file_and_line_and_no_other(tmp_path, request, code, expected):
    name = f"net_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(code)
    with pytest.raises(UserError, match=expected.replace("NAME", name)) as caught:
        describe_request(
            {"model": {"entrypoint": f"{name}:build", "directory": str(tmp_path)}, "data": DIGITS}
        )
    said = str(caught.value)
    assert said.count(" line ") == 1, "one place, one time"
    assert "\n" not in said
    assert "site-packages" not in said
    assert "^" not in said


def test_synthetic_data_take_the_models_own_shapes():
    for source, data, shape, classes in (
        ({"name": "resnet50"}, {"name": "synthetic"}, (3, 224, 224), 1000),
        ({"name": "resnet-digits"}, {"name": "synthetic"}, (1, 8, 8), 10),
        ({"name": "vgg-small", "options": {"classes": 7}}, {"name": "synthetic"}, (3, 32, 32), 7),
        ({"name": "cnn"}, {"name": "synthetic", "options": {"classes": 3}}, (1, 8, 8), 3),
        ({"name": "cnn"}, {"name": "synthetic", "options": {"shape": [1, 8, 8]}}, (1, 8, 8), 10),
    ):
        found = load_dataset(fitted(from_plain(SourceSpec, data), from_plain(SourceSpec, source)))
        assert (found.input_shape, found.classes) == (shape, classes)
        assert describe_request({"model": source, "data": data}).samples == len(found.train)
    words = {"source_vocabulary": 50, "target_vocabulary": 40, "embedding": 8, "hidden": 8}
    translation = {"name": "sockeye-shape", "options": words}
    assert describe_request({"model": translation, "data": {"name": "synthetic-tokens"}}).samples == 1024


def test_data_that_do_not_fit_a_model_of_ours_are_told_both_shapes():
    expected = (
        r"data = 'digits': the model vgg19 takes samples of the shape \(3, 224, 224\), and these data give \(1, 8, 8\):"
        r" RuntimeError: .*\. Choose data of that shape"
    )
    with pytest.raises(UserError, match=expected):
        describe_request({"model": {"name": "vgg19"}, "data": DIGITS})


def test_a_missing_directory_module_or_import_is_named(tmp_path):
    def refuse(entrypoint: str, directory: Path) -> str:
        with pytest.raises(UserError) as caught:
            describe_request(
                {"model": {"entrypoint": entrypoint, "directory": str(directory)}, "data": DIGITS}
            )
        return str(caught.value)

    (tmp_path / "broken_net.py").write_text("import no_such_package_at_all\n")
    (tmp_path / "json.py").write_text("build = None\n")
    assert "is not a directory" in refuse("net:build", tmp_path / "nowhere")
    assert "The folder holds: broken_net" in refuse("net_absent:build", tmp_path)
    assert "No module named 'no_such_package_at_all'" in refuse("broken_net:build", tmp_path)
    assert "Rename your module" in refuse("json:build", tmp_path)
    refused = refuse("string:build", tmp_path)
    assert refused.startswith("model.directory = "), (
        "the module is not in the folder: another folder is meant"
    )
    assert "Name the folder that holds 'string'. This one holds: broken_net, json" in refused


def test_what_is_no_file_is_not_called_a_module_that_is_missing(tmp_path):
    def refuse(directory: str) -> str:
        with pytest.raises(UserError) as caught:
            describe_request({"model": {"entrypoint": "mm:build", "directory": directory}, "data": DIGITS})
        return str(caught.value)

    file = tmp_path / "mm.py"
    os.mkfifo(file)
    assert f"{file} is no regular file. Put your module in its place" in refuse(str(tmp_path))
    file.unlink()
    file.symlink_to(file)
    assert f"{file} is a link that leads to no file" in refuse(str(tmp_path))
    file.unlink()
    file.symlink_to("a" * 300)  # a link that cannot be followed, as one into a folder that is closed to us
    assert f"{file} is a link that leads to no file" in refuse(str(tmp_path))
    file.rename(tmp_path / "other.py")
    assert "The folder holds: no modules" in refuse(str(tmp_path))
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert "is not a directory on this machine" in refuse(str(loop))
    assert "cannot be looked into: file name too long. Name the folder" in refuse("/" + "a" * 5_000)
    assert "is no path: embedded null byte. Name the folder" in refuse("/a\0b")


@pytest.mark.parametrize(
    ("entrypoint", "expected"),
    [
        ("time:build", "the module 'time' was found in built-in, not in"),
        ("args:build", "its import fails: SystemExit: 2 (args.py, line 2"),
        ("leaves:build", "it fails when called: SystemExit: no weights (leaves.py, line 4, in build"),
        (":build", "must read module:function. Example: net:build"),
        ("..leaves:build", "must read module:function"),
        ("leaves:no name", "must read module:function"),
    ],
)
def test_what_cannot_be_an_entry_point_is_said(entrypoint: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "time.py").write_text("def build(): ...\n")
    (tmp_path / "args.py").write_text("import argparse\nargparse.ArgumentParser().parse_args(['--no'])\n")
    (tmp_path / "leaves.py").write_text("import sys\n\ndef build():\n    sys.exit('no weights')\n")
    with pytest.raises(UserError) as caught:
        describe_request({"model": {"entrypoint": entrypoint, "directory": str(tmp_path)}, "data": DIGITS})
    assert expected in str(caught.value)


def test_a_module_may_be_a_link_or_put_another_object_in_its_place(tmp_path: Path) -> None:
    code = "import sys\nfrom torch import nn\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere" / "other.py").write_text(code)
    (tmp_path / "here" / "linked_of_a_test.py").symlink_to(tmp_path / "elsewhere" / "other.py")
    lazy = "class Lazy:\n    build = staticmethod(build)\nsys.modules[__name__] = Lazy()\n"
    (tmp_path / "here" / "lazy_of_a_test.py").write_text(code + lazy)
    for name in ("linked_of_a_test", "lazy_of_a_test"):
        model = {"entrypoint": f"{name}:build", "directory": str(tmp_path / "here")}
        assert [each.name for each in describe_request({"model": model, "data": DIGITS}).layers] == ["1"]


def run_process(request: dict, cwd: Path) -> tuple[int, dict]:
    done = subprocess.run(
        [sys.executable, "-m", "engine.models"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.soak  # in the suite tests/backend/test_descriptions.py starts the same program, for both
def test_the_short_process_answers_a_description_or_an_error(folder):
    root = Path(__file__).parents[2]
    module = next(folder.glob("net_*.py")).stem
    source = {"entrypoint": f"{module}:build", "directory": str(folder)}
    status, answer = run_process({"model": source, "data": DIGITS, "precision": "float64"}, root)
    assert status == 0
    assert {p.dtype for p in ModelDescription.from_dict(answer).parameters} == {"float64"}
    status, answer = run_process({"model": {"name": "vgg91"}, "data": DIGITS}, root)
    assert status == 1
    assert answer["error"]["field"] == "model.name"
    assert "vgg19" in answer["error"]["remedy"]
