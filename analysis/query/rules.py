"""What a query may say: one SELECT that reads our frames. Judged by its syntax tree, before anything of it runs.

The sandbox (`worker`) refuses most of the rest by itself; this rule also refuses what would read settings, or write
into the folder that the frames are in. Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

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
    found = node.get("cte_map")
    return [entry for entry in found.get("map", []) if "key" in entry] if isinstance(found, dict) else []


def _first_line(message: str) -> str:
    if "Only SELECT" in message:
        return "only a SELECT or WITH statement is run"
    return message.strip().split("\n")[0]
