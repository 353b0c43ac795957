"""What the statements of a database's schema say: names, defaults, comments and conditions may be private texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.parsers.nsys.database import quoted

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

_PLAIN = ("index", "view")
_TYPE_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_() ,")


def with_plain_statements(connection: sqlite3.Connection) -> None:
    """Puts a mark in the place of bytes that are no UTF-8 in statements and names, which no query could name else.

    Connections that are opened later see the new names.
    """
    query = "SELECT rowid, CAST(name AS BLOB), CAST(tbl_name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master"
    connection.execute("PRAGMA writable_schema=ON")
    for row, *raw in connection.execute(query).fetchall():
        texts = [None if part is None else part.decode("utf-8", "replace") for part in raw]
        if any(text is not None and text.encode() != part for text, part in zip(texts, raw, strict=True)):
            connection.execute("UPDATE sqlite_master SET name=?, tbl_name=?, sql=? WHERE rowid=?", (*texts, row))


def without_private_statements(connection: sqlite3.Connection, is_private: Callable[[str], bool]) -> int:
    """Removes or rewrites the parts of a schema whose statement holds something private; returns how many.

    Views and indexes are dropped, and so are tables with such a name; another table is written anew without such
    columns, with the rows and types that it has. What SQLite noted on values of indexed columns is dropped at any rate.
    """
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'sqlite_stat_'").fetchall():
        connection.execute(f"DELETE FROM {quoted(table)}")
    query = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
    private = [(kind, name) for kind, name, sql in connection.execute(query).fetchall() if is_private(sql)]
    for kind, name in sorted(private):  # an index goes before its table
        if kind in _PLAIN or is_private(name):
            connection.execute(f"DROP {kind.upper()} IF EXISTS {quoted(name)}")
        elif kind == "table":
            _written_anew(connection, name, is_private)
    return len(private)


def _written_anew(connection: sqlite3.Connection, table: str, is_private: Callable[[str], bool]) -> None:
    rows = connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
    columns = {row[1]: row[2] or "" for row in rows if not is_private(row[1])}
    connection.execute("DROP TABLE IF EXISTS tracetui_copy")
    if not columns:
        connection.execute(f"DROP TABLE {quoted(table)}")
        return
    declared = ", ".join(
        f"{quoted(name)} {kind if set(kind.upper()) <= _TYPE_LETTERS and not is_private(kind) else ''}"
        for name, kind in columns.items()
    )
    named = ", ".join(map(quoted, columns))
    connection.execute(f"CREATE TABLE tracetui_copy ({declared})")
    connection.execute(f"INSERT INTO tracetui_copy SELECT {named} FROM {quoted(table)}")
    connection.execute(f"DROP TABLE {quoted(table)}")
    connection.execute(f"ALTER TABLE tracetui_copy RENAME TO {quoted(table)}")
