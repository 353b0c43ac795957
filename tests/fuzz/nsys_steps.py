"""Steps that change an export of Nsight Systems: cells, rows, tables, columns, and the database's bytes."""

from random import Random
from typing import Any

from fuzz import values
from fuzz.nsys_doc import EVENTS, NsysDoc
from fuzz.spans import BYTEWISE, Spans


def _cell(dice: Random) -> Any:
    """What a column of numbers should not hold."""
    value = values.plain(values.anything(dice))
    if isinstance(value, str):
        return (
            value.encode("utf-8", "surrogatepass") if dice.random() < 0.3 else value.encode("utf-8", "replace").decode()
        )
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else float(value)
    return value if isinstance(value, float) else b"\x00\xff\xfe"


def _table(doc: NsysDoc, dice: Random) -> str:
    return dice.choice(doc.base.events())


def _row(doc: NsysDoc, table: str, dice: Random) -> int:
    return dice.randrange(1, doc.base.rows[table] + 1)


def odd_cell(doc: NsysDoc, dice: Random) -> None:
    table = _table(doc, dice)
    for _ in range(dice.choice((1, 1, 2, 8))):
        column = dice.choice(doc.base.tables[table])
        doc.change(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', _cell(dice), _row(doc, table, dice))
        doc.spoilt[table] += 1


def null_cell(doc: NsysDoc, dice: Random) -> None:
    table = _table(doc, dice)
    column = dice.choice(doc.base.tables[table])
    many = dice.random() < 0.3
    where = "" if many else f" WHERE rowid = {_row(doc, table, dice)}"
    doc.change(f'UPDATE "{table}" SET "{column}" = NULL{where}')
    doc.spoilt[table] += doc.base.rows[table] if many else 1


def huge_ids(doc: NsysDoc, dice: Random) -> None:
    """Correlation and other ids at the ends of 64 bits, or beyond them as text."""
    table = _table(doc, dice)
    ids = [c for c in doc.base.tables[table] if c.endswith(("Id", "Pid", "Tid", "Name", "Node"))] or doc.base.tables[
        table
    ]
    column = dice.choice(ids)
    value = dice.choice((2**63 - 1, -(2**63), 2**62, 2**53, 2**32, 2**31, -1, "18446744073709551615", 1e19, -1e300))
    many = dice.random() < 0.4
    where = "" if many else f" WHERE rowid = {_row(doc, table, dice)}"
    plus = f'"{column}" + ?' if many and isinstance(value, int) and dice.random() < 0.5 else "?"
    doc.change(f'UPDATE "{table}" SET "{column}" = {plus}{where}', value)
    doc.spoilt[table] += doc.base.rows[table] if many else 1


def odd_times(doc: NsysDoc, dice: Random) -> None:
    """Zero-length durations, ends before starts, all at once."""
    table = _table(doc, dice)
    sql = dice.choice(("end = start", "end = start - 1", "start = 0, end = 0", "start = end",
                       "start = -start, end = -end", "start = 9223372036854775807",
                       "end = NULL", "start = NULL", "start = 5, end = 6"))  # fmt: skip
    some = "" if dice.random() < 0.5 else f" WHERE rowid % {dice.choice((2, 3, 10))} = 0"
    doc.change(f'UPDATE "{table}" SET {sql}{some}')
    doc.spoilt[table] += doc.base.rows[table]


def odd_string(doc: NsysDoc, dice: Random) -> None:
    """NULLs and odd texts in the list of strings."""
    doc.names = False
    for _ in range(dice.choice((1, 3, 20))):
        kind = dice.randrange(5)
        where = (
            f"rowid = (SELECT rowid FROM StringIds LIMIT 1 OFFSET {dice.randrange(max(doc.base.rows['StringIds'], 1))})"
        )
        if kind == 0:
            doc.change(f"UPDATE StringIds SET value = NULL WHERE {where}")
        elif kind == 1:
            doc.change(f"DELETE FROM StringIds WHERE {where}")
        elif kind == 2:
            doc.change(
                f"UPDATE StringIds SET value = CAST(? AS TEXT) WHERE {where}", dice.choice((b"\xff\xfe", b"\xc3(", b""))
            )
        elif kind == 3:
            doc.change(
                f"UPDATE StringIds SET id = ? WHERE {where}", dice.choice((2**31, 2**62, -1, -(2**63), 2**63 - 1))
            )
        else:
            doc.change(f"UPDATE StringIds SET value = ? WHERE {where}", _cell(dice))


def removed_rows(doc: NsysDoc, dice: Random) -> None:
    table = _table(doc, dice)
    number = _row(doc, table, dice)
    doc.change(
        f'DELETE FROM "{table}" WHERE rowid BETWEEN ? AND ?', number, number + (span := dice.choice((0, 3, 1000)))
    )
    doc.spoilt[table] += span + 1


def doubled_rows(doc: NsysDoc, dice: Random) -> None:
    table = _table(doc, dice)
    doc.change(f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE rowid = ?', _row(doc, table, dice))
    doc.spoilt[table] += 2


def far_row(doc: NsysDoc, dice: Random) -> None:
    """A row number far from the others."""
    table = _table(doc, dice)
    doc.change(f'UPDATE "{table}" SET rowid = ? WHERE rowid = ?', dice.choice((2**63 - 1, -(2**63), -5, 10**12)), 1)
    doc.spoilt[table] += 1


def renamed_table(doc: NsysDoc, dice: Random) -> None:
    table = dice.choice(list(doc.base.tables))
    new = dice.choice((f"{table}_OLD", f"X{table}", table.lower() + "_", f"odd \x1b[31m{dice.random()}", "select", '"'))
    doc.change(f'ALTER TABLE "{table}" RENAME TO "{new.replace(chr(34), chr(34) * 2)}"')
    _gone(doc, table)


def dropped_table(doc: NsysDoc, dice: Random) -> None:
    table = dice.choice(list(doc.base.tables))
    doc.change(dice.choice((f'DROP TABLE "{table}"', f'DELETE FROM "{table}"')))
    _gone(doc, table)


def _gone(doc: NsysDoc, table: str) -> None:
    doc.spoilt[table] += doc.base.rows[table]
    doc.names &= table != "StringIds"
    if table.startswith(("ENUM_", "TARGET_INFO")):
        doc.spoilt["device names"] += 1


def as_view(doc: NsysDoc, dice: Random) -> None:
    """A view in a table's place, which is not to be looked at."""
    table = _table(doc, dice)
    doc.change_at_once(
        f'ALTER TABLE "{table}" RENAME TO hidden{dice.randrange(9)}_x',
        f'CREATE VIEW "{table}" AS '
        "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start+1 FROM n) SELECT * FROM n",
    )
    _gone(doc, table)


def renamed_column(doc: NsysDoc, dice: Random) -> None:
    table = dice.choice(list(doc.base.tables))
    column = dice.choice(doc.base.tables[table])
    new = dice.choice(("x", column.lower() + "_", "a b", "rowid"))
    doc.change(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{new}"')
    _gone(doc, table)


def dropped_column(doc: NsysDoc, dice: Random) -> None:
    table = dice.choice(list(doc.base.tables))
    doc.change(f'ALTER TABLE "{table}" DROP COLUMN "{dice.choice(doc.base.tables[table])}"')
    _gone(doc, table)


def more_columns(doc: NsysDoc, dice: Random) -> None:
    """Columns of another version, a generated one among them."""
    table = _table(doc, dice)
    name, kind = dice.choice(("laterId", "x y", "rowid_")), dice.choice(("", "TEXT", "BLOB"))
    doc.change(f'ALTER TABLE "{table}" ADD COLUMN "{name}" {kind}')
    if dice.random() < 0.4:
        doc.change(
            f'ALTER TABLE "{table}" ADD COLUMN made INTEGER GENERATED ALWAYS AS (randomblob(1000000000)) VIRTUAL'
        )


def retyped(doc: NsysDoc, dice: Random) -> None:
    """A table with other types of columns: text, real, or numbers as bytes."""
    table = dice.choice([*doc.base.events(), "StringIds"])
    kind = dice.choice(("TEXT", "REAL", "BLOB", "NUMERIC"))
    columns = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name in doc.base.tables[table])
    doc.change_at_once(
        f'CREATE TABLE made AS SELECT {columns} FROM "{table}"',
        f'DROP TABLE "{table}"',
        f'ALTER TABLE made RENAME TO "{table}"',
    )
    _gone(doc, table)


def no_rowid(doc: NsysDoc, dice: Random) -> None:
    """A table without row numbers."""
    table = _table(doc, dice)
    columns = doc.base.tables[table]
    named = ", ".join(f'"{name}"' for name in columns)
    doc.change_at_once(
        f"CREATE TABLE made (n INTEGER PRIMARY KEY, {named}) WITHOUT ROWID",
        f'INSERT INTO made SELECT rowid, {named} FROM "{table}"',
        f'DROP TABLE "{table}"',
        f'ALTER TABLE made RENAME TO "{table}"',
    )


def odd_metadata(doc: NsysDoc, dice: Random) -> None:
    """Odd values in the tables that say what the recording is."""
    small = [
        table for table in doc.base.tables if table not in EVENTS and table != "StringIds" and doc.base.rows[table]
    ]
    for _ in range(dice.choice((1, 3))):
        table = dice.choice(small)
        doc.change(f'UPDATE "{table}" SET "{dice.choice(doc.base.tables[table])}" = ? WHERE rowid = ?', _cell(dice),
                   _row(doc, table, dice))  # fmt: skip
        doc.spoilt["device names"] += 1


def other_encoding(doc: NsysDoc, dice: Random) -> None:
    doc.encoding = dice.choice(("UTF-16le", "UTF-16be"))


def with_index(doc: NsysDoc, dice: Random) -> None:
    """Indexes and triggers, which change nothing."""
    table = _table(doc, dice)
    doc.change(f'CREATE INDEX i{dice.randrange(9)} ON "{table}" ("{dice.choice(doc.base.tables[table])}")')
    sql = f'CREATE TRIGGER t{dice.randrange(9)} AFTER INSERT ON "{table}" BEGIN DELETE FROM StringIds; END'
    doc.last.append([(sql, ())])


def packed(doc: NsysDoc, dice: Random) -> None:
    doc.packed = True


def _bytewise(change: Any) -> Any:
    def later(doc: NsysDoc, dice: Random) -> None:
        doc.bytewise.append((change, dice.randrange(1 << 32)))
        doc.damaged = True

    return later


def odd_head(doc: NsysDoc, dice: Random) -> None:
    """Another page size, version, encoding or count of pages in the database's first 100 bytes."""

    def change(spans: Spans, dice: Random) -> None:
        at = dice.randrange(16, 100)
        spans.data[at : at + 1] = bytes((dice.choice((0, 1, 2, 3, 255, dice.randrange(256))),))

    doc.bytewise.append((change, dice.randrange(1 << 32)))
    doc.damaged = True


SHAPED = {
    "odd cell": odd_cell, "NULL": null_cell, "huge ids": huge_ids, "odd times": odd_times, "odd string": odd_string,
    "rows removed": removed_rows, "row twice": doubled_rows, "far row number": far_row,
    "table renamed": renamed_table, "table gone": dropped_table, "view": as_view, "column renamed": renamed_column,
    "column gone": dropped_column, "more columns": more_columns, "other types": retyped, "no row numbers": no_rowid,
    "odd metadata": odd_metadata, "other encoding": other_encoding, "index and trigger": with_index, "packed": packed,
}  # fmt: skip
TORN = {**{name: _bytewise(change) for name, change in BYTEWISE.items()}, "odd head": odd_head}
