"""The house's walls: who may import whom, what never loads torch, how long a file may be.

Read from the source with `ast` (imports inside functions count too) and, for torch, by importing in a fresh
process, because what an import drags in cannot be seen in the file that asks for it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"backend", "frontend", "engine", "migrations", "tests", "docker", "docs"}
AXES = {"placement", "exchange", "codec", "order", "consistency", "memory", "inputs"}
CONTRACTS = ("engine.inputs.loader", "engine.inputs.task")
"""What mechanisms of any axis may name: no mechanisms, but what those are given."""
SURROUNDINGS = frozenset(
    {"autocast", "checkpoint", "enable_grad", "enough_samples", "saved_tensors_hooks", "set_grad_enabled"}
)
"""What may stand around a computation of the model."""
SURROUNDS = {"engine.state.computation": SURROUNDINGS, "engine.runtime.computing": frozenset({"autocast"})}
"""Who may say so in a worker, and what."""
EXECUTORS_CONTRACT = ("attempt_files", "base", "log_times", "registry")
RUNS_USERS_CODE = ("environment", "process", "scratch", "watchdog")
"""What any program of ours that runs a user's code on this machine stands on, attempts' or not."""
LONGEST_FILE = 400
"""Lines; beyond that a file holds more than one idea."""

WITHOUT_TORCH = (
    "engine.axes",
    "engine.budget",
    "engine.plan",
    "engine.preview",
    "engine.order",
    "engine.protocol",
    "engine.simulate",
    "engine.strategies",
    "engine.telemetry",
    "engine.lab",
    "engine.measured_here",
    "engine.message_cost",
    "engine.codec_cost",
    "engine.paying",
    "engine.launch",
    "engine.spanning",
)
"""Packages of which no module loads torch: the service imports them."""
BACKEND_MAY_IMPORT = (
    "engine.catalogue",
    "engine.checkpoint.preemption",
    "engine.checkpoint.start",
    "engine.checkpoint.store",
    "engine.errors",
    "engine.redaction",
    "engine.regular",
    *WITHOUT_TORCH,
    *(f"engine.{axis}" for axis in sorted(AXES)),
    "engine.models",
    "engine.profile",
    "engine.benchmarks.harness.machine",
    "engine.benchmarks.harness.report",
    "engine.launch",
    "engine.gang.beginning",
    "engine.gang.gang",
)
"""What of the engine the backend may name; that none of it loads torch is tested below, import by import."""


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(package: str) -> Iterator[Path]:
    """The Python files of a package, given with dots."""
    return iter(sorted((ROOT / package.replace(".", "/")).rglob("*.py")))


@cache
def parsed(path: Path) -> ast.Module:
    """A file's code. Read once: several rules look at each file of the engine."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def imports(path: Path) -> frozenset[str]:
    """The modules that a file names in its imports, `from a import b` as `a.b` where that is a module."""
    package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found.update(f"{base}.{a.name}" if is_module(f"{base}.{a.name}") else base for a in node.names)
    return frozenset(found)


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def room(module: str) -> str:
    """The package of the engine that a module is in, or the module itself where it lies beside them."""
    return ".".join(module.split(".")[:2])


def within(module: str, packages: tuple[str, ...] | set[str]) -> bool:
    return any(module == p or module.startswith(f"{p}.") for p in packages)


def trespasses(package: str, forbidden: set[str]) -> list[str]:
    """`file imports module` for every import of a forbidden package in `package`."""
    return [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(package)
        for module in sorted(imports(path))
        if within(module, forbidden)
    ]


def torch_free_modules() -> list[str]:
    """Every module that must not load torch: the listed packages, the axes' lists, the backend's."""
    names = {module_name(path) for package in WITHOUT_TORCH for path in sources(package)}
    names |= {module_name(path) for path in (ROOT / "engine").glob("*/__init__.py")}
    names |= {m for path in sources("backend") for m in imports(path) if within(m, {"engine"})}
    names |= {module_name(path) for path in sources("backend")}
    return sorted(names)


def test_engine_never_imports_the_backend() -> None:
    assert trespasses("engine", {"backend", "migrations", "tests"}) == []


def test_backend_imports_only_the_light_side_of_the_engine() -> None:
    found = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources("backend")
        for module in sorted(imports(path))
        if within(module, {"engine"}) and not within(module, BACKEND_MAY_IMPORT)
    ]
    assert found == []


def test_light_side_names_no_torch() -> None:
    """Not even inside a function: the service would load torch on a request."""
    light = [*WITHOUT_TORCH, "backend"]
    assert [line for package in light for line in trespasses(package, {"torch"})] == []


def test_light_side_loads_no_torch() -> None:
    """In one fresh process, module by module; the first that brings torch is named."""
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    if 'torch' in sys.modules: sys.exit(f'importing {name} loads torch')\n"
    )
    command = [sys.executable, "-c", program, *torch_free_modules()]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("backend.api", {"backend.db", "sqlalchemy", "backend.scheduler", "backend.executors"}),
        ("backend.services", {"backend.api", "fastapi", "starlette"}),
        ("backend.db", {"backend.api", "backend.services", "backend.ingest", "fastapi", "starlette"}),
        ("backend.lifecycle", {"backend.api", "backend.services", "backend.db", "sqlalchemy"}),
        ("backend.figures", {"backend.api", "fastapi", "starlette"}),
        ("backend.schemas", {"backend.api", "backend.services", "backend.db", "sqlalchemy"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_requests_go_from_api_over_services_to_the_database(package: str, forbidden: set[str]) -> None:
    assert trespasses(package, forbidden) == []


def test_services_know_of_executors_what_each_of_them_keeps() -> None:
    """What a service asks of an attempt, it asks through the contract: the attempt may be on another machine."""
    contract = {f"backend.executors.{name}" for name in (*EXECUTORS_CONTRACT, *RUNS_USERS_CODE)}
    found = [
        line
        for package in ("backend.services", "backend.scheduler")
        for line in trespasses(package, {"backend.executors"})
        if line.split()[-1] not in contract
    ]
    assert found == []


def test_rooms_import_each_other_in_one_direction() -> None:
    """What a room asks of another one, that one can be read without: there is an order of all rooms."""
    asked: dict[str, set[str]] = {}
    for path in sources("engine"):
        own = room(module_name(path))
        asked.setdefault(own, set()).update(
            room(module) for module in imports(path) if within(module, {"engine"}) and room(module) != own
        )
    TopologicalSorter(asked).prepare()  # raises CycleError, which names the rooms


@pytest.mark.parametrize("word", ["Place", "Peer", "Device", "Lane", "Outcome", "Context"])
def test_a_word_with_many_uses_has_one_meaning_in_the_engine(word: str) -> None:
    """As a class, or as a name of a type."""
    found = [
        str(path.relative_to(ROOT))
        for path in sources("engine")
        for node in parsed(path).body
        if (isinstance(node, ast.ClassDef) and node.name == word)
        or (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == word)
    ]
    assert len(found) <= 1, found


@pytest.mark.parametrize("axis", sorted(AXES))
def test_mechanisms_of_different_axes_do_not_know_each_other(axis: str) -> None:
    """A codec never calls a collective, an exchange never knows the order in which it is asked."""
    uses = {"exchange": {"codec", "consistency"}}.get(axis, set())
    others = {f"engine.{other}" for other in AXES - {axis} - uses}
    found = trespasses(f"engine.{axis}", others)
    assert [line for line in found if "__init__.py" not in line and not line.endswith(CONTRACTS)] == []


def names_in(source: str) -> set[str]:
    """Every name and attribute that a file's code uses."""
    nodes = list(ast.walk(ast.parse(source)))
    return {n.attr for n in nodes if isinstance(n, ast.Attribute)} | {
        n.id for n in nodes if isinstance(n, ast.Name)
    }


def test_who_computes_a_part_of_the_model_has_no_surroundings_of_its_own() -> None:
    """Gradients, precision, checks and memory are the one composed context's (`engine/state/computation.py`)."""
    rooms = ("engine.runtime", "engine.placement", "engine.replica", "engine.state")
    found = {
        (module_name(path), name)
        for package in rooms
        for path in sources(package)
        for name in names_in(path.read_text(encoding="utf-8")) & SURROUNDINGS
    }
    assert {(module, name) for module, name in found if name not in SURROUNDS.get(module, ())} == set()
    assert names_in("with torch.autocast('cpu'): ...") & SURROUNDINGS
    for module in ("engine.runtime.trainer", "engine.placement.edge", "engine.placement.device",
                   "engine.placement.stage"):  # fmt: skip
        used = names_in((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
        assert {"training", "backward", "measuring", "_computation"} <= used, module


def test_top_level_folders() -> None:
    made = {"build", "dist", "coverage", "test-results"}
    found = {p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith((".", "__"))} - made
    found = {name for name in found if not name.endswith(".egg-info")}
    assert found == FOLDERS


def test_no_file_is_long() -> None:
    """Written files only; the API client of the page is generated."""
    suffixes = {".py", ".ts", ".tsx", ".css", ".sh"}
    skipped = {"node_modules", "dist", "coverage", "test-results", "schema.d.ts"}
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in sorted(FOLDERS)
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and not skipped & {*path.parts, path.name}
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE
    }
    assert long == {}
