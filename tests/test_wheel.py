"""The wheel: what is installed without a checkout has all that it runs on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_BUILD = "import setuptools.build_meta as backend, sys; backend.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files in a folder of their own."""
    folder = tmp_path_factory.mktemp("wheel")
    source, packages = folder / "source", folder / "packages"
    for name in ("engine", "backend"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
    for name in ("trainyard.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-c", _BUILD, str(folder)], cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("trainyard-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    return packages


def run(installed: Path, folder: Path, *arguments: str) -> str:
    """What Python prints with the wheel's packages before this checkout's, in another folder."""
    found = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_users_import_one_module_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = "import trainyard, engine, backend; print(*(m.__file__ for m in (trainyard, engine, backend)), sep='\\n')"
    files = run(installed, tmp_path, "-c", code).split()
    assert all(Path(file).is_relative_to(installed) for file in files)
    assert "Client" in run(installed, tmp_path, "-c", "from trainyard import Client; print(Client)")


def test_what_lies_beside_the_code_is_there(installed: Path) -> None:
    """Templates, for one, are files that nothing imports: a wheel has them only where it is told to."""
    missing = [
        path.relative_to(ROOT)
        for name in ("engine", "backend")
        for path in (ROOT / name).rglob("*")
        if path.is_file()
        and not {"__pycache__", "results"} & set(path.parts)
        and path.suffix != ".md"
        and not (installed / path.relative_to(ROOT)).is_file()
    ]
    assert missing == []


def test_a_server_needs_a_checkout_and_says_so(installed: Path, tmp_path: Path) -> None:
    code = "from backend.cli.main import main; main()"
    with pytest.raises(AssertionError, match="Run the server from a checkout"):
        run(installed, tmp_path, "-c", code, "serve", "--data-dir", str(tmp_path / "data"))
