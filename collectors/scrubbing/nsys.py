"""Copies an Nsight Systems export without what its tables say about the machine and the profiled program.

VACUUM INTO writes the copy, so that none of its pages holds removed data. The file's triggers are dropped before
anything is changed, so that nothing in the file is executed.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from tracetui.collectors.scrubbing.marks import COMMAND, ENVIRONMENT, HOST, OUTPUT, PROCESS, SETTING, USER, UUID
from tracetui.collectors.scrubbing.redactor import Redactor
from tracetui.parsers.errors import TraceError
from tracetui.parsers.nsys.database import open_database, quoted
from tracetui.parsers.nsys.dialects import NSYS, dialect_of
from tracetui.parsers.nsys.metadata import SHOWN_SETTINGS, VALUE_LENGTH
from tracetui.parsers.nsys.privacy import is_environment
from tracetui.parsers.progress import Watch
from tracetui.parsers.tally import Tally

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


SETTINGS = ("META_DATA_CAPTURE", "CAPTURE_META_DATA", "SYSTEM_ENV", "ENVIRONMENT")
"""A table whose name contains one of these keeps only the few properties that tracetui itself shows."""
EXPORTS = ("META_DATA_EXPORT", "EXPORT_META_DATA")
EVENTS = ("CUPTI", "CUDA", "NVTX", "OSRT", "CUDNN", "CUBLAS", "MPI", "NCCL", "VULKAN", "OPENACC", "PROFILER")
NAMING = ("nameid", "textid", "name")
"""How names of event tables start, and how the names of their columns end that refer to an event's name."""
CONTENTS = (("ANALYSIS_FILE", "contentId"), ("ProcessStreams", "contentId"))
"""Columns that refer to strings with whole files or with the program's output."""
NETWORK = ("NIC", "NETWORK", "NET_", "IB_")
"""Tables whose name contains one of these list network addresses of the machine."""
_HIDDEN_COLUMNS = {"uuid": UUID, "hostname": HOST, "username": USER, "commandline": COMMAND, "devstatename": HOST}
_OF_PROCESS = ("globalPid", "globalTid")
_TEXT_TYPES = ("TEXT", "CHAR", "CLOB", "BLOB")


def scrub_nsys(path: Path, target: Path, redactor: Redactor) -> None:
    """Writes the copy.

    Raises:
        TraceError: the file can't be read, is too damaged to be copied, or there is no room for the copy.
    """
    folder = Path(tempfile.mkdtemp(prefix=".tracetui-", dir=target.parent))
    try:
        work = folder / "work.sqlite"
        tally = Tally()
        with open_database(path, tally, Watch()) as database:
            if (wrote := dialect_of(database)) is not NSYS:
                raise TraceError(
                    path, f"a database of {wrote.tool}, of which no copy is made", "give its report instead"
                )
            source = sqlite3.connect(database.uri, uri=True)
            with sqlite3.connect(work) as into:  # includes what is still in a write-ahead log
                source.backup(into)
                with_plain_statements(into)
            source.close()
            into.close()
        connection = sqlite3.connect(work, isolation_level=None)
        try:
            _Scrub(connection, redactor).all()
            target.unlink(missing_ok=True)
            connection.execute("VACUUM INTO ?", (str(target),))
        finally:
            connection.close()
    except sqlite3.Error as error:
        if any(word in str(error) for word in ("full", "disk I/O")):  # no room, or a disk that fails
            raise TraceError(target, f"could not be written: {error}") from error
        raise TraceError(path, f"too damaged to be copied: {error}", "export the report anew") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Scrub:
    """One working copy."""

    def __init__(self, connection: sqlite3.Connection, redactor: Redactor) -> None:
        self._connection = connection
        self._redactor = redactor
        self._named: set[int] = set()
        """Ids of the strings that name a kernel, a range or a function."""
        connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        for pragma in ("trusted_schema=OFF", "secure_delete=ON", "journal_mode=MEMORY", "foreign_keys=OFF"):
            connection.execute(f"PRAGMA {pragma}")
        for name in self._names("trigger"):
            connection.execute(f"DROP TRIGGER {quoted(name)}")
        redactor.count(SETTING, without_private_statements(connection, redactor.would_change))
        self._columns = {
            name: self._columns_of(name) for name in self._names("table") if not name.startswith("sqlite_")
        }

    def all(self) -> None:
        """Learns the names of users and machines, then removes everything private."""
        self._connection.execute("BEGIN")
        self._learn()
        for table in self._columns:
            upper = table.upper()
            if any(part in upper for part in SETTINGS):
                self._settings(table)
            elif upper in EXPORTS:
                self._exports(table)
            elif any(part in upper for part in NETWORK):
                self._empty(table, "network address")
            if {"localTime", "utcTime"} <= set(self._columns[table]):  # the hour tells where it was made
                self._connection.execute(f"UPDATE {quoted(table)} SET localTime=utcTime")
        self._contents()
        self._other_processes()
        for table, columns in self._columns.items():
            texts = self._with_texts(table, columns)
            for column in columns:
                hidden = _HIDDEN_COLUMNS.get(column.lower())
                if hidden is not None:
                    self._change(table, column, partial(self._hidden, hidden))
                elif table == "StringIds" and column == "value":
                    self._strings()
                elif table == "NVTX_EVENTS" and column == "text":
                    self._change(table, column, self._name)
                elif column in texts:
                    self._change(table, column, self._redactor.value)
        self._connection.execute("COMMIT")

    def _names(self, kind: str) -> list[str]:
        rows = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type=? AND (type<>'table' OR rootpage>0)", (kind,)
        ).fetchall()
        return [name for (name,) in rows]

    def _columns_of(self, table: str) -> dict[str, str]:
        """The table's own columns, generated ones left out, and their declared types."""
        rows = self._connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
        return {row[1]: (row[2] or "").upper() for row in rows}

    def _with_texts(self, table: str, columns: dict[str, str]) -> set[str]:
        """The columns that may hold texts or bytes: those declared so, and others that do."""
        found = {name for name, kind in columns.items() if not kind or any(text in kind for text in _TEXT_TYPES)}
        others = [name for name in columns if name not in found]
        if others:
            asked = ", ".join(f"max(typeof({quoted(name)}) IN ('text', 'blob'))" for name in others)
            (row,) = self._connection.execute(f"SELECT {asked} FROM {quoted(table)}")
            found |= {name for name, does in zip(others, row, strict=True) if does}
        return found

    def _learn(self) -> None:
        for table, columns in self._columns.items():
            if any(part in table.upper() for part in SETTINGS) and {"name", "value"} <= set(columns):
                for name, value in self._connection.execute(f"SELECT name, value FROM {quoted(table)}"):
                    plain = str(name).upper().replace("_", "")
                    if isinstance(value, str) and plain.endswith(("USERNAME", "HOSTNAME")):
                        self._redactor.learn(value, USER if plain.endswith("USERNAME") else HOST)
        if "value" in self._columns.get("StringIds", {}):
            likely = "SELECT value FROM StringIds WHERE value LIKE '%=%' OR value LIKE '%/home/%'"
            for (text,) in self._connection.execute(likely):
                if isinstance(text, str):
                    if is_environment(text):
                        self._redactor.learn_from_environment(text)
                    else:
                        self._redactor.learn_from_path(text)

    def _settings(self, table: str) -> None:
        """Keeps only the settings that tracetui shows."""
        columns = self._columns[table]
        if not {"name", "value"} <= set(columns):
            self._empty(table, ENVIRONMENT)
            return
        # raw bytes may stand in either, declared as text: as bytes they can be asked for again
        query = f"SELECT DISTINCT name, value, CAST(name AS BLOB), CAST(value AS BLOB) FROM {quoted(table)}"
        for name, value, *raw in self._connection.execute(query).fetchall():
            known = isinstance(name, str) and (name in SHOWN_SETTINGS or name.partition(":")[2] in SHOWN_SETTINGS)
            harmless = isinstance(value, str) and len(value) <= VALUE_LENGTH and value.isprintable()
            if known and harmless and not self._redactor.would_change(value):
                continue
            where = f"DELETE FROM {quoted(table)} WHERE CAST(name AS BLOB) IS ? AND CAST(value AS BLOB) IS ?"
            gone = self._connection.execute(where, raw).rowcount
            self._redactor.count(_kind_of_setting(str(name), str(value or "")), gone)

    def _exports(self, table: str) -> None:
        if {"name", "value"} <= set(self._columns[table]):
            done = self._connection.execute(
                f"UPDATE {quoted(table)} SET value='' WHERE name IN ('EXPORT_USER','EXPORT_HOST') AND value<>''"
            )
            self._redactor.count(USER, done.rowcount)

    def _empty(self, table: str, kind: str) -> None:
        self._redactor.count(kind, self._connection.execute(f"DELETE FROM {quoted(table)}").rowcount)

    def _contents(self) -> None:
        """Empties the strings that hold whole files, except those that also name an event."""
        if not {"id", "value"} <= set(self._columns.get("StringIds", {})):
            return
        for table, columns in self._columns.items():
            if table.startswith(EVENTS):
                self._named |= self._integers(table, [c for c in columns if c.lower().endswith(NAMING)])
        found = {n for table, column in CONTENTS for n in self._integers(table, (column,))}
        for number in found - self._named:
            changed = "UPDATE StringIds SET value='' WHERE id=? AND value<>''"
            self._redactor.count(OUTPUT, self._connection.execute(changed, (number,)).rowcount)

    def _integers(self, table: str, columns: Iterable[str]) -> set[int]:
        found: set[int] = set()
        for column in columns:
            if column in self._columns.get(table, {}):
                rows = self._connection.execute(f"SELECT DISTINCT {quoted(column)} FROM {quoted(table)}")
                found |= {value for (value,) in rows if isinstance(value, int)}
        return found

    def _strings(self) -> None:
        """Scrubs the strings: names of events as names, all others as plain text."""
        rows = self._connection.execute("SELECT id, value FROM StringIds WHERE typeof(value)='text'").fetchall()
        for number, text in rows:
            left = self._name(text) if number in self._named else self._redactor.value(text)
            if left != text:
                changed = "UPDATE StringIds SET value=CAST(? AS TEXT) WHERE id=?"
                self._connection.execute(changed, (left.encode("utf-8", "surrogateescape"), number))
        self._change("StringIds", "value", self._name, only="blob")

    def _name(self, text: str) -> str:
        return self._redactor.value(text) if is_environment(text) else self._redactor.name(text)

    def _other_processes(self) -> None:
        """Numbers the names of processes in which nothing was recorded: those of other people, or of the system."""
        if not {"globalPid", "name"} <= set(self._columns.get("PROCESSES", {})):
            return
        seen: set[int] = set()
        for table, columns in self._columns.items():
            if table.startswith(EVENTS):
                seen |= {number >> 24 for number in self._integers(table, [c for c in columns if c in _OF_PROCESS])}
        rows = self._connection.execute("SELECT DISTINCT globalPid, name FROM PROCESSES").fetchall()
        for process, name in rows if seen else ():
            if isinstance(name, str) and name and isinstance(process, int) and process >> 24 not in seen:
                changed = "UPDATE PROCESSES SET name=? WHERE globalPid=? AND name IS NOT NULL"
                self._connection.execute(changed, (self._redactor.mark(PROCESS, name), process))

    def _hidden(self, kind: str, text: str) -> str:
        if kind in (HOST, USER):
            self._redactor.learn(text, kind)
        return self._redactor.mark(kind, text) if text else text

    def _change(self, table: str, column: str, change: Callable[[str], str], only: str = "") -> None:
        """Replaces each distinct text of a column by `change`; empties bytes that are private or no text at all."""
        name, place = quoted(column), quoted(table)
        kinds = f"('{only}')" if only else "('text', 'blob')"
        query = f"SELECT DISTINCT {name} FROM {place} WHERE typeof({name}) IN {kinds}"
        new: list[tuple[str | bytes, str | bytes]] = []
        for (value,) in self._connection.execute(query).fetchall():
            if isinstance(value, bytes):
                if value and self._is_private(value):
                    self._redactor.count(ENVIRONMENT)
                    new.append((b"", value))
                continue
            if (left := change(value)) != value:
                new.append((left, value))
        for after, before in new:
            if isinstance(before, str) and isinstance(after, str):
                # bound as bytes, because a text that is no UTF-8 can't be bound as one
                where = (
                    f"UPDATE {place} SET {name}=CAST(? AS TEXT) WHERE {name}=CAST(? AS TEXT) AND typeof({name})='text'"
                )
                values = after.encode("utf-8", "surrogateescape"), before.encode("utf-8", "surrogateescape")
                self._connection.execute(where, values)
            else:
                self._connection.execute(
                    f"UPDATE {place} SET {name}=? WHERE {name}=? AND typeof({name})='blob'", (after, before)
                )

    def _is_private(self, value: bytes) -> bool:
        """Whether bytes hold something private, or nobody can say: packed ones, and texts of other encodings."""
        try:
            text = value.decode().rstrip("\0")
        except UnicodeDecodeError:
            return True
        return not all(c.isprintable() or c.isspace() for c in text) or self._redactor.would_change(text)


def _kind_of_setting(name: str, value: str) -> str:
    upper = name.upper()
    if "COMMAND" in upper or "ARGUMENT" in upper:
        return COMMAND
    return ENVIRONMENT if "ENV" in upper or is_environment(value) else SETTING
