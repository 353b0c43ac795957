"""`tracetui reference models`: lists what can be profiled by name, the sizes, and the packages that they need."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from tracetui.analysis.base.number_format import UNKNOWN
from tracetui.app.cli.command import option
from tracetui.app.cli.options import Plain, format_option
from tracetui.app.reports.layout import Layout, Shown
from tracetui.app.text.exit_codes import DONE, UsageError
from tracetui.app.text.fitting import fit
from tracetui.collectors.requirements import SECONDS, installed
from tracetui.models.errors import ModelError
from tracetui.models.needs import MAMBA, PILLOW, TIMM, TORCH, Need
from tracetui.models.options import WORDS
from tracetui.models.registry import Entry, entries, find

SCHEMA = "tracetui.models/1"
PACKAGES = (TORCH, MAMBA, TIMM, PILLOW)
MISSING = "*"


def names() -> tuple[str, ...]:
    """Returns the models' names; no form of one of timm's or of the user's own."""
    return tuple(entry.name for entry in entries() if ":" not in entry.name)


@dataclass(kw_only=True)
class Options(Plain):
    """List the models that can be profiled by name: their parameters, their FLOPs, and what they need."""

    name: str | None = option(
        nargs="?", metavar="NAME", help="show one model: its options and what it needs", words=names
    )
    format: str = format_option("text", "json")
    python: str | None = option(
        "--python",
        metavar="PATH",
        help="ask this Python what is installed (default: tracetui's own)",
        values="programs",
    )


def run(options: Options) -> int:
    """Prints the list, or everything about one model.

    Raises:
        UsageError: there is no such model, or that Python can't be asked.
    """
    name, python = options.name, options.python
    try:
        chosen = entries() if name is None else [find(name)]
    except ModelError as error:
        raise UsageError(str(error)) from None
    version, versions = _installed(python)
    if options.format == "json":
        print(json.dumps(_as_json(chosen, python, version, versions), indent=2))
        return DONE
    page = Layout(ascii=options.ascii)
    where = f"Python {version}" + ("" if python is None else f" ({python})")
    lines = _list(chosen, versions, page) if name is None else _one(chosen[0], page)
    needs = PACKAGES if name is None else (TORCH, *chosen[0].needs)
    print("\n".join([*lines, "", *_needs(needs, where, versions, page)]))
    return DONE


def _installed(python: str | None) -> tuple[str, dict[str, str | None]]:
    """Returns the Python's version, and each package's version: None if it is not installed."""
    try:
        return installed(python or sys.executable, PACKAGES)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        if python is None:
            return platform.python_version(), {need.name: None for need in PACKAGES}
        raise UsageError(f"{python} is not a Python 3.8 or later that can list its packages: {_why(error)}") from None


def _why(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        said = error.stderr.strip().splitlines()
        return fit(said[-1], 100) if said else f"exit code {error.returncode}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer in {SECONDS} s"
    return (isinstance(error, OSError) and error.strerror) or "it does not answer as Python does"


def _as_json(chosen: list[Entry], python: str | None, version: str, installed: dict[str, str | None]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "python": {"path": python or sys.executable, "version": version},
        "models": [
            {
                "name": entry.name,
                "family": entry.family,
                "title": entry.title,
                "parameters": entry.parameters,
                "flops_per_step": None if entry.cost is None else entry.cost.flops,
                "compulsory_bytes_per_step": None if entry.cost is None else entry.cost.compulsory_bytes,
                "defaults": entry.defaults,
                "options": list(entry.options),
                "needs": [_need_json(need, installed) for need in (TORCH, *entry.needs)],
                "ready": all(installed[need.name] for need in (TORCH, *entry.needs) if not need.optional),
            }
            for entry in chosen
        ],
    }


def _need_json(need: Need, installed: dict[str, str | None]) -> dict[str, Any]:
    version = installed[need.name]
    return {
        "name": need.name,
        "requirement": need.requirement,
        "optional": need.optional,
        "why": need.why or None,
        "installed": version is not None,
        "version": version,
        "install": need.install,
    }


def _list(chosen: list[Entry], installed: dict[str, str | None], page: Layout) -> list[str]:
    columns = [
        Shown("model", right=False),
        Shown("parameters"),
        Shown("FLOPs"),
        Shown("of a step of", right=False),
        Shown(f"needs ({MISSING} missing)", right=False, share=1),
    ]
    cells = [
        [
            e.name,
            _size(e.parameters),
            UNKNOWN if e.cost is None else _size(e.cost.flops),
            _step(e),
            _needed(e, installed),
        ]
        for e in chosen
    ]
    return [
        "Models for `tracetui profile NAME` (FLOPs: forward pass at the defaults)",
        *page.table(columns, cells),
        *page.paragraph(
            "Also timm:NAME (any model of timm) and MODULE:FACTORY (your own). `tracetui reference models NAME` lists a"
            " model's options, --format json everything."
        ),
    ]


def _step(entry: Entry) -> str:
    batch, size, ctx, keep = (entry.defaults.get(option) for option in ("batch", "img_size", "ctx", "keep"))
    each = f" × {size} px" if size else f" × {ctx} tokens" if ctx else " vectors"
    return f"{batch}{each}" + (f", keep {keep}" if keep else "")


def _needed(entry: Entry, installed: dict[str, str | None]) -> str:
    needs = [need for need in (TORCH, *entry.needs) if need is not PILLOW]
    return ", ".join(need.name + ("" if installed[need.name] else MISSING) for need in needs)


def _one(entry: Entry, page: Layout) -> list[str]:
    cost = entry.cost
    work = "Parameters, FLOPs and memory traffic are counted when it is built."
    if cost is not None:
        work = (
            f"At the defaults: {_size(entry.parameters)} parameters; the forward pass of {_step(entry)} takes"
            f" {_size(cost.flops)}FLOP and moves at least {_size(cost.compulsory_bytes)}B."
        )
    lines = [*page.paragraph(f"{entry.name}: {entry.title}"), *page.paragraph(work), "", "Options"]
    for name in entry.options:
        flag = "--" + name.replace("_", "-")
        head = f"  {flag:<17}{_default(entry.defaults.get(name)):<10}"
        lines += page.field(head, WORDS[name], width=len(head))
    return lines


def _needs(needs: tuple[Need, ...], where: str, installed: dict[str, str | None], page: Layout) -> list[str]:
    lines = page.paragraph(f"What they need, in {where}")
    for need in needs:
        version = installed[need.name]
        state = "not installed" if version is None else version
        why = f" ({'optional: ' if need.optional else ''}{need.why})" if need.optional or not version else ""
        lines += page.field(f"  {need.name:<11}", f"{state}{why}", width=13)
        if version is None:
            lines.append("    " + page.text(need.install))  # a command is copied, so it is not wrapped
    return lines


def _size(value: int | None) -> str:
    """Writes four digits and a decimal prefix, as parameters and FLOPs are quoted: ``7.148 M``."""
    if value is None:
        return UNKNOWN
    size = float(value)
    for prefix in ("", "k", "M", "G"):
        if size < 999.95:
            return f"{size:.4g} {prefix}".rstrip() if prefix else f"{value} "
        size /= 1000
    return f"{size:.4g} T"


def _default(value: object) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
