"""What commands decide without a server: short ids, what a clone drops, and which modules they load."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from backend.called import SHORT, apart, shorten
from backend.cli.clone import fitting
from backend.cli.ids import LISTED, chosen
from backend.cli.main import COMMANDS, GUESSED, app
from backend.cli.progress import Lines
from engine.errors import UserError

IDS = [
    "019ac2f3-1b2c-7a00-8000-000000000001",
    "019ac2f3-1b2c-7a00-8000-000000000002",
    "019ac2f3-1b2d-7a00-8000-000000000001",
    "019ac300-0000-7a00-8000-000000000001",
]


def test_an_id_is_as_short_as_it_stays_the_only_one() -> None:
    short = shorten(IDS)
    assert short[IDS[0]] == IDS[0]
    assert short[IDS[2]] == "019ac2f3-1b2d"
    assert short[IDS[3]] == "019ac300-0000"
    for id_ in IDS:
        assert [other for other in IDS if other.startswith(short[id_])] == [id_]
    assert shorten([IDS[0]]) == {IDS[0]: IDS[0][:SHORT]}
    assert shorten([]) == {}
    assert shorten(["1", "12"]) == {"1": "1", "12": "12"}


def test_only_names_that_several_have_are_followed_by_ids() -> None:
    assert apart(["p3", "ddp", "p3"], [IDS[0], IDS[2], IDS[3]]) == [
        "p3 (019ac2f3-1b2c)", "ddp", "p3 (019ac300-0000)",
    ]  # fmt: skip


def test_a_beginning_names_one_or_lists_the_candidates() -> None:
    with pytest.raises(UserError, match=r"job id = 'abcd': no such job\. `trainyard list` lists them"):
        chosen("job", "abcd", {})
    assert chosen("job", "019ac300", {IDS[3]: "digits"}) == IDS[3]
    with pytest.raises(UserError) as error:
        chosen("race", "019a", dict(zip(IDS, ("a", "b", "c", "d"), strict=True)))
    assert "4 races begin with it: " in error.value.rule
    assert "019ac300-0000 (d), 019ac2f3-1b2d (c)" in error.value.rule, "the newest first"
    with pytest.raises(UserError, match="and 5 more"):
        chosen("job", "0", {f"0{number:035d}": "many" for number in range(LISTED + 5)})


def test_what_goes_on_is_a_line_for_each_new_state_where_nobody_watches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = Lines(0)
    for state, text in ((0, "none"), (1, "one"), (1, "one, 9 s left"), (3, "three"), (3, "all")):
        lines.tell(state, text)
    assert capsys.readouterr().err.splitlines() == ["one", "three"]


@pytest.mark.parametrize(
    ("changes", "after", "dropped"),
    [
        (
            {"strategy": {"name": "ddp"}},
            {"strategy": {"name": "ddp", "options": {"slice_size": None}}},
            {"slice_size": 500},
        ),
        (
            {"strategy": {"name": "ddp", "options": {"bucket_mb": 1}}, "name": "x"},
            {"strategy": {"name": "ddp", "options": {"slice_size": None, "bucket_mb": 1}}, "name": "x"},
            {"slice_size": 500},
        ),
        # What somebody asks for by name is theirs to answer for.
        ({"strategy": {"name": "ddp", "options": {"slice_size": 1}}}, None, {}),
        ({"strategy": {"name": "p3"}}, None, {}),
        ({"strategy": {"name": "slices"}}, None, {}),
        ({"strategy": {"name": "nobody"}}, None, {}),
        ({"training": {"steps": 3}}, None, {}),
        ({}, None, {}),
    ],
)
def test_a_clone_drops_the_options_that_its_strategy_does_not_have(
    changes: dict[str, Any], after: dict[str, Any] | None, dropped: dict[str, Any]
) -> None:
    old = {"strategy": {"name": "p3", "options": {"slice_size": 500}}}
    known = {"ddp": {"bucket_mb"}, "p3": {"slice_size"}, "slices": {"slice_size", "more"}}
    assert fitting(changes, old, known.get) == (after or changes, dropped)


def test_every_command_is_where_its_name_leads() -> None:
    from typer.main import get_command  # noqa: PLC0415

    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert list(commands) == list(COMMANDS)
    for name in COMMANDS:
        assert commands[name].name == name
        assert commands[name].help, f"{name} says what it does"


def test_a_command_loads_what_it_needs() -> None:
    """Asking a server one thing loads neither the other commands nor what only a server needs."""
    program = (
        "import sys\n"
        "sys.argv = ['trainyard', 'strategies', '--url', 'http://127.0.0.1:1']\n"
        "from backend.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 1, end.code\n"
        "unwanted = {'fastapi', 'sqlalchemy', 'plotly', 'torch', 'numpy', 'pandas', 'backend.cli.demo',"
        " 'backend.cli.serve', 'backend.cli.profiles', 'backend.services', 'engine.strategies', 'engine.transport',"
        " 'engine.simulate', 'rich', 'scipy'}\n"
        "assert not unwanted & set(sys.modules), unwanted & set(sys.modules)\n"
        "from backend.schemas.races import RaceView\n"
        "assert not RaceView.__pydantic_complete__, 'schemas that nobody uses are not built'\n"
        "documented = {field.description for field in RaceView.model_fields.values()}\n"
        "assert documented == {None}, 'no source is parsed for what documents fields'\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_command_that_people_look_for_is_named() -> None:
    assert not set(GUESSED) & set(COMMANDS)
    for guessed, meant in GUESSED.items():
        assert meant in COMMANDS
        found = CliRunner().invoke(app, [guessed])
        assert (found.exit_code, f"Did you mean `trainyard {meant}`?" in found.stderr) == (2, True)
