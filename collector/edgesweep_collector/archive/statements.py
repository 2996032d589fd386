"""Statements with many rows in one: what makes a group cost little more than a single row.

SQLAlchemy's own way of binding costs more for each value than the database does for the row, so
the text is made here and values go to the driver as they are. Both databases share the SQL but for
how rows are written: SQLite takes a list of values, PostgreSQL an array a column, since psycopg
reads every placeholder of a text anew.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

_MARKS = {"sqlite": "?", "postgresql": "%s"}
_ARRAYS = {"t": "%s::text[]", "i": "%s::bigint[]", "b": "%s::boolean[]", "y": "%b::bytea[]"}
# SQLite takes 32,766 values in a statement since 3.32.
_MOST_VALUES = 30_000


def many(
    connection: Connection, sql: str, types: str, rows: Sequence[Sequence[object]]
) -> list[Any]:
    """Execute ``sql`` with all rows where it says ``{rows}``; what it returns, if it does.

    Args:
        connection: Within a transaction.
        sql: In both dialects but for the rows.
        types: Of their columns, a letter each: text, integer, boolean, or y for bytes.
        rows: Any number; so many that SQLite takes them in no statement go in several.
    """
    found: list[Any] = []
    is_sqlite = connection.dialect.name == "sqlite"
    size = _MOST_VALUES // len(types)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        if is_sqlite:
            text, values = _values(sql, types, len(part)), [v for row in part for v in row]
        else:
            text, values = _arrays(sql, types), [list(column) for column in zip(*part, strict=True)]
        result = connection.exec_driver_sql(text, tuple(values))
        if result.returns_rows:
            found += result.all()
    return found


def single(connection: Connection, sql: str, *values: object) -> list[Any]:
    """Execute ``sql`` with a value for each ``{}``; what it returns, if it does."""
    text = _with_marks(sql, _MARKS[connection.dialect.name])
    result = connection.exec_driver_sql(text, values)
    return list(result.all()) if result.returns_rows else []


@lru_cache(maxsize=1024)
def _values(sql: str, types: str, count: int) -> str:
    row = f"({', '.join('?' * len(types))})"
    return sql.replace("{rows}", f"VALUES {', '.join([row] * count)}")


@lru_cache(maxsize=128)
def _arrays(sql: str, types: str) -> str:
    columns = ", ".join(_ARRAYS[one] for one in types)
    return sql.replace("{rows}", f"SELECT * FROM unnest({columns})")  # noqa: S608 -- marks alone


@lru_cache(maxsize=128)
def _with_marks(sql: str, mark: str) -> str:
    return sql.replace("{}", mark)
