"""What tracetui says of every file of the folder of recordings; benchmarks/trust.md has the table.

python tests/read_files.py  # writes the table of benchmarks/trust.md; takes some minutes
"""

import sys
from pathlib import Path

from as_json import report
from sample_runs import OUTSIDE

from tracetui.app.text.fitting import printable
from tracetui.parsers import Run, TraceError, open_path

DOC = Path(__file__).resolve().parents[1] / "benchmarks" / "trust.md"
TITLE = "## What is read of every recording"
HEAD = "| file | held | parsed | skipped | validity | verdict |"
NO_PLACE = ("README.md", ".py")


def row(path: Path, name: str) -> str:
    """A row of the table: what is held, parsed and skipped, the first finding on validity, the verdict; or the refusal.

    The verdict is the first half of the overview's sentence; of a recording without one, the first finding.
    """
    try:
        run = open_path(path, cache=False)
    except TraceError as error:
        why = str(error).removeprefix(f"{path}: ").replace(str(path), path.name)
        return f"| {name} | | | | | refused: {_cell(why)} |"
    return said(run, name)


def said(run: Run, name: str) -> str:
    """The row of a recording that is read."""
    trace = report(run, sections=("overview", "findings"))["run"]["traces"][0]
    source = run.main.source
    skipped = sum(note.count for note in run.main.notes if note.kind == "skipped")
    counts = f"{source.events_total:,} | {source.events_parsed:,} | {skipped:,}"
    titles = [(finding["id"], f"{finding['id']} {finding['title']}") for finding in trace["findings"]]
    validity = next((title for id, title in titles if id.startswith("V")), "")
    waits = (trace["overview"] or {}).get("waits_for")
    other = next((title for id, title in titles if not id.startswith("V")), "no verdict, no finding")
    verdict = waits["sentence"].partition(";")[0] if waits else other
    if verdict.startswith("Can't be told"):  # the figures that follow say how little is known
        verdict = verdict.partition(":")[0]
    return f"| {name} | {counts} | {_cell(validity)} | {_cell(verdict)} |"


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("_", "\\_").replace("*", "\\*").replace("<", "&lt;")


def table(folder: Path) -> str:
    """The rows of all files below a folder, by path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(NO_PLACE))
    rows = []
    for path in files:
        rows.append(row(path, path.relative_to(folder).as_posix()))
        print(rows[-1], file=sys.stderr, flush=True)
    return "\n".join([HEAD, "|:--|--:|--:|--:|:--|:--|", *rows]) + "\n"


def page(text: str) -> str:
    """benchmarks/trust.md with the table as it is now."""
    start = text.index(HEAD, text.index(TITLE))
    lines = text[start:].splitlines(keepends=True)
    rows = next((n for n, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return text[:start] + table(OUTSIDE) + "".join(lines[rows:])


if __name__ == "__main__":
    DOC.write_text(page(DOC.read_text(encoding="utf-8")), encoding="utf-8")
