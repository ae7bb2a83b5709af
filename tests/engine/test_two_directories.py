"""A model and data whose entry points are in two directories."""

from pathlib import Path

import pytest

from engine.errors import UserError
from engine.models.describe import describe_request


def test_model_and_data_in_two_directories_are_told_which_is_meant(tmp_path: Path) -> None:
    """Python imports one module of a name: the remedy names the directories, not an installed package."""
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    for folder in (one, two, three):
        folder.mkdir()
        (folder / f"own_{folder.name}.py").write_text("")
    (one / "twin_net.py").write_text("from torch import nn\n\n\ndef build():\n    return nn.Linear(64, 10)\n")
    (two / "twin_net.py").write_text("def data():\n    return [], []\n")

    def refused(model: tuple[str, Path], data: tuple[str, Path]) -> UserError:
        given = {"model": model, "data": data}
        with pytest.raises(UserError) as caught:
            describe_request({what: {"entrypoint": e, "directory": str(d)} for what, (e, d) in given.items()})
        return caught.value

    twins = refused(("twin_net:build", one), ("twin_net:data", two))
    assert twins.field == "data.entrypoint"
    assert f"Write {one} as data.directory if the model's is meant, else rename one" in twins.remedy
    wrong = refused(("twin_net:build", one), ("twin_net:data", three))
    assert (wrong.field, wrong.rule) == ("data.directory", "holds no module 'twin_net'; model.directory does")
    assert wrong.remedy.startswith(f"Write {one}, or")
    wrong = refused(("twin_net:build", three), ("twin_net:data", two))
    assert (wrong.field, wrong.rule) == ("model.directory", "holds no module 'twin_net'; data.directory does")
    assert "has no 'data'" in refused(("own_one:build", one), ("own_two:data", two)).rule
