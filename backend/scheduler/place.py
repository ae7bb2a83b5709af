"""Where a server is: its data directory, and whose processes and devices it sees."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from sqlalchemy import ColumnElement, or_, true

from backend.db import uuid7
from backend.db.models import Attempt, Maintenance
from backend.executors.process import boot_id
from backend.private import file as make_private

NAME = "server.id"
OTHERS = " of "
"""Between a device of another server and whose it is."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place of one server."""

    home: str
    """Of its data directory: stays over restarts, also of the machine. Empty where no other server can be."""
    view: str
    """Of the kernel's life, and the process namespace in it."""
    shared: bool = True
    """There may be servers elsewhere. False: whatever is in the database is here."""

    @classmethod
    def of(cls, data_dir: Path, *, shared: bool) -> Place:
        """That of a server with this directory. Raises OSError where it cannot be written."""
        namespace = Path("/proc/self/ns/pid").readlink()
        home = _home(data_dir) if shared else ""
        return cls(home=home, view=f"{boot_id()} {namespace}", shared=shared)

    @property
    def devices(self) -> ColumnElement[bool]:
        """Attempts that may hold devices of this place: those placed here, and those on the same machine."""
        return self.concerns(Attempt)

    def concerns(self, row: type[Attempt | Maintenance]) -> ColumnElement[bool]:
        """Rows about devices of this place: those made here, and those of the same machine, whose GPUs all share."""
        if not self.shared:
            return true()
        return or_(row.home.is_(None), row.home == self.home, row.view.startswith(self.kernel))

    def is_here(self, home: str | None, view: str | None) -> bool:
        """`concerns`, of one row."""
        return not self.shared or home in {None, self.home} or (view or "").startswith(self.kernel)

    def device(self, home: str | None, view: str | None, device: str) -> str:
        """What this place calls a device of a row with this home and view: GPUs are the machine's, slots each server's
        own, and those of other machines are named after their home."""
        own = not self.shared or home in {None, self.home}
        own = own or (device.startswith("cuda") and self.is_here(home, view))
        return device if own else f"{device}{OTHERS}{home}"

    @property
    def kernel(self) -> str:
        """Of the machine's life."""
        return kernel_of(self.view)

    def is_own(self, attempt: Attempt) -> bool:
        """Whether it was placed here."""
        return not self.shared or attempt.home in {None, self.home}


def is_own(device: str) -> bool:
    """Whether `Place.device` has called it a device of its own."""
    return OTHERS not in device


def kernel_of(view: str) -> str:
    """The part of a view that all servers of one machine share, until it is restarted."""
    return view.partition(" ")[0]


def _home(data_dir: Path) -> str:
    """The directory's id, which is made with the first server there."""
    path = data_dir / NAME
    make_private(path)
    held = path.read_text(encoding="ascii", errors="replace").strip()
    try:
        return str(UUID(held))
    except ValueError:
        path.write_text(f"{(made := uuid7())}\n", encoding="ascii")
        return made
