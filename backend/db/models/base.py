"""What every table shares: constraint names, portable column types, the declarative base.

Times are integer nanoseconds: `*_unix_ns` since the Unix epoch (what the service saw), plain `*_ns` on the
attempt's own clock (what a worker measured; 0 = the attempt's epoch). Sizes are bytes.
"""

from __future__ import annotations

from typing import Annotated, Any

from sqlalchemy import JSON, BigInteger, Integer, MetaData, String
from sqlalchemy.orm import DeclarativeBase, mapped_column

# Every constraint has a name, so that a migration can drop it on any database.
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

# SQLite gives row ids (and AUTOINCREMENT) only to INTEGER; there it holds 64 bits as well.
RowId = BigInteger().with_variant(Integer, "sqlite")

JsonObject = dict[str, Any]
BigInt = Annotated[int, mapped_column(BigInteger)]
"""64 bits: nanoseconds or bytes."""
Name = Annotated[str, mapped_column(String(200))]


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {
        JsonObject: JSON(none_as_null=True),
        list[str]: JSON(none_as_null=True),
        dict[str, int]: JSON(none_as_null=True),
    }
