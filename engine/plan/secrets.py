"""Names of secrets: the environment variables in which a job's processes find them."""

from __future__ import annotations

import re

from engine.errors import UserError

NAME = re.compile(r"[A-Z][A-Z0-9_]{0,99}")
TAKEN = (
    "TRAINYARD_",
    "PYTHON",
    "LD_",
    "CUDA_",
    "NCCL_",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "NUMEXPR_",
    "PG",
    "MALLOC_",
)
"""So begin the names of variables by which this program, or what it stands on, is told how to work."""
TAKEN_WHOLE = frozenset(
    {"PATH", "HOME", "USER", "SHELL", "TMPDIR", "TMP", "TEMP", "LANG", "TZ", "IFS", "ENV"}
)
MOST = 20
"""Of one job."""


def check_name(name: str, field: str = "name") -> None:
    """Raises UserError for what cannot be one."""
    if not NAME.fullmatch(name):
        rule = (
            "a secret's name is an environment variable's: capital letters, digits and _, at most 100 of them"
        )
        raise UserError(field, name[:200], rule, "Example: HF_TOKEN")
    if name.startswith(TAKEN) or name in TAKEN_WHOLE:
        rule = "is a variable that tells programs how to work, and no secret"
        raise UserError(field, name, rule, "Use another name, and read it in your own code")


def check_names(names: tuple[str, ...], field: str = "secrets") -> None:
    """The same of all that a job names."""
    if len(names) > MOST:
        raise UserError(field, len(names), f"a job has at most {MOST} secrets", "Leave some out")
    for name in names:
        check_name(name, field)
    if len(set(names)) < len(names):
        raise UserError(field, list(names), "names one of them twice", "Name each once")
