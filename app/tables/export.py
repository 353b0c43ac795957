"""Writes a table's view to a file or as text to paste."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from tracetui.analysis.tables.table import Field
from tracetui.app.tables.columns import cell_text
from tracetui.app.text.escaping import cell, code, plain
from tracetui.app.text.paths import is_there

SUFFIXES = frozenset({".csv", ".tsv", ".json", ".parquet", ".md"})


def flat(frame: pl.DataFrame, columns: Sequence[Field]) -> pl.DataFrame:
    """The shown columns with plain types: names as strings, lists as JSON-like text left out."""
    return frame.select(
        (
            pl.col(column.name).cast(pl.String)
            if frame.schema[column.name] in (pl.Categorical, pl.Enum)
            else pl.col(column.name)
        ).alias(column.saved_as or column.name)
        for column in columns
        if column.name in frame.columns and not frame.schema[column.name].is_nested()
    )


def write(frame: pl.DataFrame, columns: Sequence[Field], path: Path, about: Mapping[str, str] | None = None) -> None:
    """Writes the table in the form that the suffix names; times stay in ns, as the column names say.

    Args:
        frame: the rows.
        columns: those to write.
        path: the file.
        about: what the rows are of, such as run, base and filter: the last columns, or the first line of Markdown.

    Raises:
        ValueError: the suffix is not a known format.
        OSError: the file can't be written.
    """
    table, suffix = flat(frame, columns), path.suffix.lower()
    about = about or {}
    table = table.with_columns(
        pl.lit(text or None, pl.String).alias(f"tracetui_{name}" if name in table.columns else name)
        for name, text in about.items()
    )
    if suffix == ".csv":
        _as_cells(table).write_csv(path)
    elif suffix == ".tsv":
        _as_cells(table).write_csv(path, separator="\t")
    elif suffix == ".json":
        table.write_json(path)
    elif suffix == ".parquet":
        table.write_parquet(path)
    elif suffix == ".md":
        told = " · ".join(
            f"{name.replace('_', ' ').capitalize()}: {code(text)}" for name, text in about.items() if text
        )
        path.write_text(f"{told}\n\n" * bool(told) + markdown(frame, columns), encoding="utf-8")
    else:
        raise ValueError(f"{suffix} is none of {', '.join(sorted(SUFFIXES))}")


def _rows(frame: pl.DataFrame, columns: Sequence[Field]) -> Iterator[list[str]]:
    shown = [column for column in columns if column.name in frame.columns]
    for row in frame.select(column.name for column in shown).iter_rows():
        texts = (cell_text(value, column.kind) for column, value in zip(shown, row, strict=True))
        yield [
            code(text) if isinstance(value, str) and text else plain(text)
            for value, text in zip(row, texts, strict=True)
        ]


def markdown(frame: pl.DataFrame, columns: Sequence[Field]) -> str:
    """A Markdown table with values as the screen shows them."""
    shown = [column for column in columns if column.name in frame.columns]
    lines = [
        "| " + " | ".join(_title(column) for column in shown) + " |",
        "|" + "|".join("--:" if column.right else ":--" for column in shown) + "|",
    ]
    for row in _rows(frame, shown):
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def _title(column: Field) -> str:
    """The title, with what a total is of where that is not everything: ``Total per step``."""
    per = column.saved_as.removeprefix(column.name).replace("_", " ")
    return f"{column.label}{per}"


def tsv(frame: pl.DataFrame, columns: Sequence[Field]) -> str:
    """Tab-separated text for a spreadsheet; numbers plain, times in ns."""
    return _as_cells(flat(frame, columns)).write_csv(separator="\t")


def _as_cells(table: pl.DataFrame) -> pl.DataFrame:
    """The table with its texts as cells that no spreadsheet takes for a formula."""
    texts = [name for name, dtype in table.schema.items() if dtype == pl.String]
    return table.with_columns(
        table[name].replace_strict(known, [cell(text) for text in known], default=None, return_dtype=pl.String)
        for name in texts
        if len(known := table[name].drop_nulls().unique())
    )


def free_path(path: Path) -> Path:
    """The path, or the first numbered one beside it that does not exist."""
    number, free = 1, path
    while is_there(free):
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free
