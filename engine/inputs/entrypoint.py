"""Entry points: a user's own function, `package.module:function`, from a directory that the job names."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.errors import UserError
from engine.plan.job import SourceSpec
from engine.user_code import FOLDERS, explain


def load(entrypoint: str, directory: str, field: str = "model") -> Callable[..., Any]:
    """Import the function that `entrypoint` names from `directory`, which joins the import path for good.

    Raises UserError, on `<field>.directory` or `<field>.entrypoint`: the directory is missing; the module is
    not there, fails while it is imported (with the last lines of its traceback), or comes from elsewhere; the
    attribute is missing or cannot be called.
    """
    module = load_module(entrypoint, directory, field)
    name = entrypoint.partition(":")[2]
    function = getattr(module, name, None)
    if function is None:
        offered = [
            key for key in dir(module) if not key.startswith("_") and callable(getattr(module, key, None))
        ]
        raise UserError(
            f"{field}.entrypoint",
            entrypoint,
            f"the module {entrypoint.partition(':')[0]} has no {name!r}",
            f"It has: {', '.join(sorted(offered)) or 'nothing that can be called'}",
        )
    if not callable(function):
        raise UserError(
            f"{field}.entrypoint",
            entrypoint,
            f"{name!r} is a {type(function).__name__}, which cannot be called",
            "Name a function that takes the options as keyword arguments",
        )
    return function


def load_module(entrypoint: str, directory: str, field: str = "model") -> ModuleType:
    """Import the module part of `entrypoint`; errors as in `load`."""
    folder = _folder(directory, field)
    FOLDERS.add(str(folder))
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
    name = entrypoint.partition(":")[0]
    _check_file(folder, entrypoint, field)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"{field}.entrypoint",
                entrypoint,
                f"there is no module {error.name!r} in {folder}",
                f"The folder holds: {_listing(folder)}",
            ) from error
        raise _failure(entrypoint, field, "its import fails", error, directory) from error
    except (Exception, SystemExit) as error:
        raise _failure(entrypoint, field, "its import fails", error, directory) from error
    found = _places(module)
    if found and not any(path.is_relative_to(folder) for place in found for path in (place, place.resolve())):
        rule = f"the module {name!r} was found in {found[0]}, not in {folder}"
        if not _holds(folder, name):
            remedy = (
                f"Name the folder that holds {name.partition('.')[0]!r}. This one holds: {_listing(folder)}"
            )
            raise UserError(f"{field}.directory", directory, rule, remedy)
        remedy = "Rename your module: an installed or already imported one has the same name"
        raise UserError(f"{field}.entrypoint", entrypoint, rule, remedy)
    return module


def _places(module: Any) -> list[Path]:
    """Where it lies. A module may have put another object in its own place: that lies nowhere."""
    if not isinstance(module, ModuleType):
        return []
    known = vars(module)
    if isinstance(known.get("__file__"), str):
        return [Path(known["__file__"])]
    origin = getattr(known.get("__spec__"), "origin", None)
    return [Path(each) for each in known.get("__path__", None) or [origin] if each]


def _folder(directory: str, field: str) -> Path:
    folder, rule = Path(directory), None
    try:
        folder = Path(os.path.realpath(directory))
        if not folder.is_dir():
            rule = "is not a directory on this machine"
    except OSError as error:  # a name that is too long, a folder that is closed to us
        rule = f"cannot be looked into: {(error.strerror or type(error).__name__).lower()}"
    except ValueError as error:
        rule = f"is no path: {error}"
    if rule is not None:
        remedy = "Name the folder to import from, as an absolute path"
        raise UserError(f"{field}.directory", directory, rule, remedy)
    return folder


def _check_file(folder: Path, entrypoint: str, field: str) -> None:
    """Python takes what is no file for a module that is not there."""
    path = folder.joinpath(
        *entrypoint.partition(":")[0].split(".")
    )  # a package, or a module without its suffix
    file = Path(f"{path}.py")
    if not os.path.lexists(file) or _seen(file.is_file) or _seen(path.is_dir):
        return
    if file.is_symlink():
        rule, remedy = (
            f"{file} is a link that leads to no file that can be looked at",
            "Let it lead to your module, or put that in its place",
        )
    else:
        rule, remedy = f"{file} is no regular file", "Put your module in its place"
    raise UserError(f"{field}.entrypoint", entrypoint, rule, remedy)


def _holds(folder: Path, name: str) -> bool:
    """Whether the module, or the package that it would be in, is there."""
    top = name.partition(".")[0]
    return _seen((folder / top).is_dir) or _seen((folder / f"{top}.py").is_file)


def check_directories(model: SourceSpec, data: SourceSpec) -> None:
    """Whether two entry points in two directories can be told apart by Python, which imports one module of a name. What
    is wrong with either by itself is for `load_module` to say. Raises UserError with the directory that is meant."""
    if model.directory is None or data.directory is None:
        return
    given = {"model": model, "data": data}
    folders = {field: Path(source.directory or "").absolute() for field, source in given.items()}
    names = {field: (source.entrypoint or "").partition(":")[0] for field, source in given.items()}
    one, two = folders["model"], folders["data"]
    if _seen(lambda: one.samefile(two)) or not (_seen(one.is_dir) and _seen(two.is_dir)):
        return
    for field, other in (("data", "model"), ("model", "data")):
        if _holds(folders[other], names[field]) and not _holds(folders[field], names[field]):
            rule = f"holds no module {names[field]!r}; {other}.directory does"
            remedy = f"Write {folders[other]}, or the folder that holds your module"
            raise UserError(f"{field}.directory", given[field].directory, rule, remedy)
    name = names["data"]
    if name == names["model"] and all(_seen((folder / f"{name}.py").is_file) for folder in (one, two)):
        rule = f"model.directory and data.directory each hold a module {name!r}, and Python imports one of a name"
        remedy = f"Write {one} as data.directory if the model's is meant, else rename one of the two modules"
        raise UserError("data.entrypoint", data.entrypoint, rule, remedy)


def call(source: SourceSpec, field: str) -> Any:
    """Import and call the function that `source` names, with its options. What it raises becomes a UserError that says
    where in the user's own files; a UserError of its own stays as it is."""
    assert source.entrypoint is not None
    assert source.directory is not None
    function = load(source.entrypoint, source.directory, field)
    try:
        return function(**source.options)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        rule = f"it fails when called with {source.options}" if source.options else "it fails when called"
        raise _failure(source.entrypoint, field, rule, error, source.directory) from error


def defaults(source: SourceSpec, field: str) -> dict[str, Any]:
    """What the function that `source` names takes for options that are left out, as far as its signature says it in
    plain data; empty where the source is none of a user's own. Raises UserError as `load` does."""
    if source.entrypoint is None or source.directory is None:
        return {}
    try:
        given = inspect.signature(load(source.entrypoint, source.directory, field)).parameters
    except (TypeError, ValueError):  # it is callable, and says nothing of how
        return {}
    found = {}
    for name, parameter in given.items():
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            with suppress(
                TypeError, ValueError, RecursionError
            ):  # what JSON cannot hold nobody can give, either
                if parameter.default is not parameter.empty:
                    found[name] = json.loads(json.dumps(parameter.default, allow_nan=False))
    return found


def _failure(entrypoint: str, field: str, rule: str, error: BaseException, folder: str) -> UserError:
    return UserError(
        f"{field}.entrypoint",
        entrypoint,
        f"{rule}: {explain(error, [folder])}",
        "Correct the code and try again",
    )


def _listing(folder: Path) -> str:
    """Of what can be looked at; the rest is passed over, as Python passes it over."""
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        return f"what cannot be listed ({(error.strerror or type(error).__name__).lower()})"
    names = [
        path.stem
        for path in paths
        if (path.suffix == ".py" and _seen(path.is_file)) or _seen((path / "__init__.py").is_file)
    ]
    return ", ".join(names[:20]) or "no modules"


def _seen(asks: Callable[[], bool]) -> bool:
    """What `Path.is_file` or `Path.is_dir` answers; False where it may not look, into a closed folder, say."""
    try:
        return asks()
    except OSError:
        return False
