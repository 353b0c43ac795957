"""The process that runs one query: DuckDB over Parquet files of a private folder, with everything else shut.

It speaks with `ask` in lines of JSON: it reads the request, answers with the frames that the query names, waits until
their files are there, and answers with the rows. Standard library and DuckDB only; it reads no recording.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import json
import math
import os
import re
import sys
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""The nodes of a query that only reads."""
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
"""Functions that may stand for a table; every other one reads files, settings or the database's own lists."""
FUNCTIONS = frozenset(
    {
        "currval",
        "current_setting",
        "getenv",
        "getvariable",
        "json_execute_serialized_sql",
        "nextval",
        "query",
        "query_table",
        "set_config",
        "sleep_ms",
        "which_secret",
        "write_log",
    }
)
"""Functions that look beyond the rows of a query."""
FAMILIES = ("duckdb_", "pragma_", "read_", "pg_", "parquet_", "sniff_")
"""How the names of others begin."""


class Refused(Exception):  # noqa: N818  what it means, as Cancelled
    """The query is not one that is run; the text says why."""


def named_frames(tree: dict[str, Any], frames: Collection[str]) -> list[str]:
    """Returns the frames that a query reads, in their order.

    Args:
        tree: what DuckDB's `json_serialize_sql` made of the query.
        frames: the names that there are, in lower case.

    Raises:
        Refused: it is no single SELECT, or reads something else.
    """
    if tree.get("error"):
        raise Refused(_first_line(str(tree.get("error_message", ""))))
    statements = tree.get("statements", [])
    if len(statements) != 1:
        raise Refused("there is no query" if not statements else "only one statement is run")
    nodes = list(_nodes(statements[0]))
    own = {entry["key"].lower() for node in nodes for entry in _common_tables(node)}
    own |= {str(node["cte_name"]).lower() for node in nodes if "cte_name" in node}
    found = set()
    for node in nodes:
        kind = str(node.get("type", ""))
        if kind.endswith("_NODE") and kind not in NODES:
            raise Refused("only a SELECT or WITH statement is run")
        if kind == "SHOW_REF":
            raise Refused("only a SELECT or WITH statement is run; `tracetui query --schema` lists frames and columns")
        if kind == "BASE_TABLE":
            parts = (node.get(part) for part in ("catalog_name", "schema_name", "table_name"))
            path = [str(part) for part in parts if part]
            name = path[-1].lower()
            if len(path) > 1 or (name not in frames and name not in own):
                raise Refused(f"no frame named {'.'.join(path)}; there are {', '.join(frames)}")
            if name in frames:
                found.add(name)
        if kind == "TABLE_FUNCTION":
            _check_function(node["function"], TABLE_FUNCTIONS)
        if node.get("class") == "FUNCTION":
            _check_function(node)
    return [name for name in frames if name in found]


KEEPS = frozenset({
    "abs", "any_value", "arg_max", "arg_min", "avg", "ceil", "favg", "first", "floor", "fsum", "greatest", "lag",
    "last", "lead", "least", "max", "mean", "median", "min", "mode", "quantile", "quantile_cont", "quantile_disc",
    "round", "stddev", "stddev_pop", "stddev_samp", "sum", "trunc",
})  # fmt: skip
"""Functions whose result is in the unit of what they are of, which comes first."""
MOMENTS = ("start", "time", "offset")
"""Columns of moments: two of them are apart by a duration."""


def measured(tree: dict[str, Any]) -> list[str]:
    """The column of a frame whose unit each column of the result has, or nothing; empty where a star hides them."""
    node: dict[str, Any] = next((statement["node"] for statement in tree.get("statements", ())), {})
    while "select_list" not in node and (parts := node.get("children") or [node.get("left") or node.get("child")])[0]:
        node = parts[0]
    items = node.get("select_list") or []
    inner = (item for other in _nodes(tree) if other is not node for item in other.get("select_list") or ())
    named = {item["alias"].lower(): item for item in inner if item.get("alias")}
    starred = any(item.get("class") == "STAR" for item in items)
    return [] if starred else [_measured(item, named) for item in items]


def _measured(item: dict[str, Any], named: dict[str, Any]) -> str:
    kind, name = item.get("class"), str(item.get("function_name", "")).lower()
    if kind == "COLUMN_REF":
        column = str(item["column_names"][-1])
        inner, rest = named.get(column.lower()), {alias: of for alias, of in named.items() if alias != column.lower()}
        return column if inner is None else _measured(inner, rest)
    if kind == "CAST":
        return _measured(item["child"], named)
    inside = [argument.get("expression", argument) for argument in item.get("arguments") or item.get("children") or ()]
    units = [_measured(one, named) for one in inside if one.get("class") != "CONSTANT"]
    counts = name == "/" and str(inside[-1].get("function_name", "")).startswith("count")
    if units and (name in KEEPS or counts or item.get("type") == "OPERATOR_COALESCE"):
        return units[0]
    if name not in ("+", "-") or len(units) != 2:
        return ""
    if units[0] == units[1]:
        return "duration" if units[0] in MOMENTS[:2] and name == "-" else units[0]
    return next((unit for unit in units if unit in MOMENTS), "") if "duration" in units else ""


def _check_function(node: dict[str, Any], only: Collection[str] = ()) -> None:
    name = str(node.get("function_name", "")).lower()
    if (only and name not in only) or name in FUNCTIONS or name.startswith(FAMILIES):
        raise Refused(f"the function {name} is not available: a query reads the frames and nothing else")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of the tree; a loop, since a tree may be deeper than Python recurses."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _common_tables(node: dict[str, Any]) -> list[dict[str, Any]]:
    tables = node.get("cte_map")
    return [entry for entry in tables.get("map", []) if "key" in entry] if isinstance(tables, dict) else []


def _first_line(message: str) -> str:
    if "Only SELECT" in message:
        return "only a SELECT or WITH statement is run"
    return message.strip().split("\n")[0]


BATCH = 256
"""Rows fetched at once."""
MOST_BYTES = 64 << 20
"""How much text a result may hold."""
SHUT = {
    "python_enable_replacements": False,  # a name in SQL is no variable of Python
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "temp_directory": "",  # what exceeds the memory fails instead of filling a disk
}
EXTRA_MEMORY = 3 << 29
"""Address space beside DuckDB's own limit, which leaves out its code, stacks and reserved ranges."""
LOOK_S = 0.2
"""How often it looks whether the process that asked still runs."""


def main() -> None:
    """Answers requests, a line each, until standard input ends."""
    request: dict[str, Any] = {}
    watch = threading.Thread(target=_end_with, args=(os.getppid(), request), daemon=True)
    watch.start()
    try:
        for line in sys.stdin:
            request.update(json.loads(line))
            _limit_process(request)
            for answer in answers(request):
                sys.stdout.write(json.dumps(answer) + "\n")  # a lone surrogate in a name stays an escape
                sys.stdout.flush()
                if "frames" in answer:
                    sys.stdin.readline()
    finally:
        watch.join(2 * LOOK_S)  # the process that asked may have been ended, which closes its pipes first


def _end_with(parent: int, request: dict[str, Any]) -> None:
    """Ends this process when the one that asked was ended by a signal, and removes the frames that it has left."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    if "folder" in request:
        with contextlib.suppress(OSError):
            for name in request["frames"]:
                Path(request["folder"], f"{name}.parquet").unlink(missing_ok=True)
            Path(request["folder"]).rmdir()
    os._exit(1)


def answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What is said of a request: first the ``frames`` it names, then, once their files are there, its ``rows``.

    An ``error`` is the last answer.
    """
    try:
        yield from _answers(request)
    except Refused as refused:
        yield {"error": str(refused)}
    except MemoryError:
        yield {"error": _out_of_memory(request)}


def _answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    import duckdb

    with duckdb.connect(":memory:", config=SHUT) as connection:
        yield from _over(connection, request, duckdb)


def _over(connection: Any, request: dict[str, Any], duckdb: Any) -> Iterator[dict[str, Any]]:
    connection.execute(f"SET threads = {int(request['threads'])}")
    connection.execute(f"SET memory_limit = '{int(request['memory_bytes'])}B'")
    try:
        (tree,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [request["sql"]]).fetchone() or ("{}",)
        frames = named_frames(parsed := json.loads(tree), request["frames"])
        units = measured(parsed)
    except (duckdb.Error, RecursionError) as error:
        raise Refused(_line(error, request)) from error
    yield {"frames": frames}
    folder = str(Path(request["folder"]))
    for name in frames:
        path = _quoted(str(Path(folder, f"{name}.parquet")))
        connection.execute(
            f'CREATE VIEW "{name}" AS SELECT file_row_number AS "row", * EXCLUDE (file_row_number) '
            f"FROM read_parquet({path}, file_row_number = true)"
            if name in request["numbered"]
            else f'CREATE VIEW "{name}" AS SELECT * FROM read_parquet({path})'
        )
    connection.execute(f"SET allowed_directories = [{_quoted(folder)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    ends = time.monotonic() + request["seconds"]
    timer = threading.Timer(request["seconds"], connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        found = _rows(connection.execute(request["sql"]), request["limit"], ends)
        for at, column in enumerate(found["columns"]):
            column["of"] = units[at] if units else None
        yield found
    except duckdb.InterruptException as error:
        raise Refused(_too_long(request)) from error
    except duckdb.OutOfMemoryException as error:
        raise Refused(_out_of_memory(request)) from error
    except TimeoutError as error:
        raise Refused(_too_long(request)) from error
    except duckdb.Error as error:
        raise Refused(_line(error, request) + _columns_of(connection, frames, error, request["sql"])) from error
    finally:
        timer.cancel()


def _rows(result: Any, limit: int, ends: float) -> dict[str, Any]:
    """The first rows, of one type per column that JSON has."""
    columns = [{"name": str(column[0]), "type": str(column[1]).lower()} for column in result.description]
    rows: list[list[Any]] = []
    size = 0
    while len(rows) <= limit and (batch := result.fetchmany(min(BATCH, limit + 1 - len(rows)))):
        for row in batch:
            values = [_value(value) for value in row]
            size += sum(len(value) if isinstance(value, str) else 8 for value in values)
            rows.append(values)
        if size > MOST_BYTES:
            raise Refused(f"the result holds more than {MOST_BYTES >> 20} MiB; ask for fewer rows or columns")
        if time.monotonic() > ends:
            raise TimeoutError
    return {"columns": columns, "rows": rows[:limit], "more": len(rows) > limit}


def _value(value: object) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return _value(float(value))
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _value(item) for key, item in value.items()}
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value)


def _columns_of(connection: Any, frames: list[str], error: Exception, sql: str) -> str:
    """After a wrong name of a column: those that there are, of which DuckDB names only what is spelled alike."""
    if not re.search(r"column .* not found|not have a column named", str(error), re.IGNORECASE):
        return ""
    if alias := re.search(r'"(\w+)" does not have a column named', str(error)):
        named = rf'\b(\w+)"?(?:\s+(?:as\s+)?"?{alias[1]}\b)'
        meant = {alias[1].lower(), *(name.lower() for name in re.findall(named, sql, re.IGNORECASE))}
        frames = [name for name in frames if name.lower() in meant] or frames
    found = ((name, connection.execute(f'DESCRIBE "{name}"').fetchall()) for name in frames)
    return "".join(f"; {name} has {', '.join(row[0] for row in rows)}" for name, rows in found)


def _line(error: Exception, request: dict[str, Any]) -> str:
    """What DuckDB says, in one line, without its excerpt of the query and without the folder."""
    message = str(error) or type(error).__name__
    lines: list[str] = []
    for line in message.splitlines():
        if line.startswith(("LINE ", "Traceback ")):
            break
        if line.strip():
            lines.append(line.strip())
    said = "; ".join(lines).replace(request["folder"], "")
    said = re.sub(r"; Candidate bindings: .*", "", said) if "not found in FROM clause" in said else said
    return re.sub(r"^(?:[A-Za-z]+ )+Error: ", "", said)[:600]


def _too_long(request: dict[str, Any]) -> str:
    return f"stopped after {request['seconds']:g} s; --timeout gives a query longer"


def _out_of_memory(request: dict[str, Any]) -> str:
    return f"the query needs more than {int(request['memory_bytes']) >> 20} MiB of memory; filter or aggregate earlier"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _limit_process(request: dict[str, Any]) -> None:
    """Lets the system refuse too: no file can grow, and processor time and memory end."""
    try:
        import resource
    except ImportError:
        return
    cpu = math.ceil(request["seconds"] * request["threads"]) + 10
    memory = request["memory_bytes"] + EXTRA_MEMORY
    for what, most in (("FSIZE", 0), ("CORE", 0), ("CPU", cpu), ("AS", memory)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{what}"), (most, most))


if __name__ == "__main__":
    main()
