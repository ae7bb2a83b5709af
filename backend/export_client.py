"""What the client asks about a job's or a race's records as tables."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from backend.connection import Connection
from engine.errors import UserError

if TYPE_CHECKING:
    import pandas as pd


class ExportClient(Connection):
    """The part of `Client` that is about exports."""

    def tables(
        self,
        job_id: str,
        file: IO[bytes],
        *,
        on_progress: Callable[[int], None] = lambda _: None,
        **query: Any,
    ) -> None:
        """Write a job's records to `file` as a ZIP archive of Parquet files; `query`: tables (names with commas),
        attempt, step_from, step_to. `on_progress` hears how many bytes are written."""
        self._fetch(f"/jobs/{job_id}/tables", file, on_progress, query)

    def race_tables(
        self,
        race_id: str,
        file: IO[bytes],
        *,
        on_progress: Callable[[int], None] = lambda _: None,
        **query: Any,
    ) -> None:
        """The same of all jobs that a race has made; `query`: tables, step_from, step_to."""
        self._fetch(f"/races/{race_id}/tables", file, on_progress, query)

    def frames(self, job_id: str, **query: Any) -> dict[str, pd.DataFrame]:
        """A job's records for pandas, by the table's name; `query` as for `tables`. Raises UserError where pandas or
        pyarrow is missing."""
        with tempfile.TemporaryFile() as file:
            self.tables(job_id, file, **query)
            return _read(file)

    def race_frames(self, race_id: str, **query: Any) -> dict[str, pd.DataFrame]:
        """The same of all jobs of a race; `query` as for `race_tables`."""
        with tempfile.TemporaryFile() as file:
            self.race_tables(race_id, file, **query)
            return _read(file)


def _read(file: IO[bytes]) -> dict[str, pd.DataFrame]:
    try:
        import pandas as pd  # noqa: PLC0415 - not everybody has it
        import pyarrow  # noqa: F401, PLC0415
    except ImportError as error:
        rule = f"{error.name} is not installed"
        raise UserError("frames", error.name, rule, "pip install pandas 'trainyard[parquet]'") from None
    found = {}
    with zipfile.ZipFile(file) as packed:
        for name in packed.namelist():
            with packed.open(name) as member:
                found[name.removesuffix(".parquet")] = pd.read_parquet(member)
    return found
