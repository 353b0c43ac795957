"""Writes benchmarks/trust.md's table of the fuzzer from summaries of its runs."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

DOC = Path(__file__).resolve().parents[2] / "benchmarks" / "trust.md"
TITLE = "## What the fuzzer tried"


def table(summaries: list[dict[str, Any]]) -> str:
    """A row per format: inputs, outcomes, finds; then the inputs of each class of mutations."""
    names = list(dict.fromkeys(name for summary in summaries for name in summary["formats"]))
    rows = ["| format | inputs | read | read, with notes | refused in one line | finds |", "|:--|--:|--:|--:|--:|--:|"]
    classes = ["| format | inputs of each class |", "|:--|:--|"]
    total: Counter[str] = Counter()
    for name in names:
        parts = [summary["formats"][name] for summary in summaries if name in summary["formats"]]
        said: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        for part in parts:
            said.update(part["outcomes"])
            kinds.update(part["classes"])
            said["inputs"] += part["inputs"]
        total.update(said)
        rows.append(_row(name, said))
        each = ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items(), key=lambda item: -item[1]))
        classes.append(f"| {name} | {each} |")
    rows.append(_row("all", total))
    return "\n".join([*rows, "", *classes])


def _row(name: str, said: Counter[str]) -> str:
    parts = ("inputs", "read", "read, with notes", "refused in one line", "find")
    return f"| {name} | " + " | ".join(f"{said[part]:,}" for part in parts) + " |"


def write_table(files: list[Path]) -> None:
    """Replaces the tables under the title; the sentences around them stay."""
    summaries = [json.loads(file.read_text()) for file in files]
    stretches = [(summary["seed"], summary["first"], name) for summary in summaries for name in summary["formats"]]
    if twice := [stretch for stretch, times in Counter(stretches).items() if times > 1]:
        raise SystemExit(f"the same inputs stand in two summaries (seed, first, format): {twice[0]}")
    text = DOC.read_text(encoding="utf-8")
    start = text.index("| format | inputs |", text.index(f"{TITLE}\n"))
    lines = text[start:].splitlines(keepends=True)
    rows = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("|")), len(lines))
    DOC.write_text(f"{text[:start]}{table(summaries)}\n\n{''.join(lines[rows:])}", encoding="utf-8")
