"""`tracetui reference rules`: prints every rule with its thresholds, needs and bases; makes docs/reference/rules.md."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from tracetui.analysis.base.json_values import Json
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.config import Config
from tracetui.analysis.findings.declared.needs import NEEDS
from tracetui.analysis.findings.declared.rule import BASES, Rule, Threshold
from tracetui.app.cli.command import option
from tracetui.app.cli.options import Plain, format_option
from tracetui.app.reports.layout import Layout
from tracetui.app.text.exit_codes import DONE, UsageError
from tracetui.parsers.errors import instead

SCHEMA = "tracetui.rules/1"
GROUPS = {
    "V": "Is the measurement valid?",
    "S": "The system: what the GPU waits for",
    "T": "The machine's state",
    "F": "The framework: how the work is done",
    "K": "Kernels",
    "G": "Memory",
    "D": "Comparisons and sweeps",
}
"""The subject of each letter's rules."""
SUBJECTS = {"run": "a run", "pair": "two runs", "sweep": "a sweep"}
INTRODUCTION = """\
# Rules

What `tracetui` looks for in a recording, and when it speaks up. Made from `analysis/findings/` by `make docs`;
`tracetui reference rules` prints the same with your own thresholds.

Rules on the measurement (V, some T) are asked first, and stand first if they speak against others. A rule that
*refutes* a base removes the findings that rest on it. One that *doubts* a base takes severity from them: they are at
most `info` if it is critical, at most `warning` if it is one, and say first why they may not hold. A rule that lacks
what it needs abstains and says how to record it. A finding's ceiling is the most that the step could shrink; advice
below the one of K14 is set aside. *Changes* are options of the run that do what a rule advises, the best first, where
they fit: `tracetui try` measures them ([prove.md](prove.md)).

Set thresholds and silence rules in `.tracetui.toml` beside the recording, in the working directory, or above either:

```toml
[thresholds]
"S2.late_percent" = 40

[silence]
F1 = "fp32 is needed for the reference run"
"F3:9f2c01ab" = "one finding of a rule that may find several, by its `key` in JSON"
```

On the screen `x` silences the finding under the cursor, and restores one that is silenced.

Thresholds marked *own* are our choice; the others come from the cited source.
"""


@dataclass(kw_only=True)
class Options(Plain):
    """List every rule behind the findings: its thresholds (yours are marked), needs and bases."""

    id: str | None = option(nargs="?", metavar="ID", help="one rule, explained", words=lambda: tuple(all_rules()))
    format: str = format_option("text", "json", "markdown")


def run(options: Options) -> int:
    """Prints all rules, or one, with the user's thresholds.

    Raises:
        UsageError: there is no such rule.
    """
    from tracetui.analysis.findings.config import load
    from tracetui.app.text.fitting import printable

    config = load(Path.cwd())
    for problem in config.problems:
        print(f"tracetui: warning: {printable(problem)}", file=sys.stderr)
    id = options.id
    rules = list(all_rules().values())
    if id is not None:
        rules = [rule for rule in rules if rule.id.lower() == id.lower()]
        if not rules:
            raise UsageError(f"no rule {id!r}; {instead(id, all_rules())}")
    rules.sort(key=_place)
    if options.format == "json":
        print(json.dumps({"schema": SCHEMA, "rules": [as_json(rule, config) for rule in rules]}, indent=1))
    elif options.format == "markdown":
        print(markdown(rules, config) if id is None else "\n".join(_markdown(rules[0], config)) + "\n", end="")
    else:
        page = Layout(ascii=options.ascii)
        lines = _explained(rules[0], config, page) if id is not None else _list(rules, config, page)
        print("\n".join(lines))
    return DONE


def as_json(rule: Rule, config: Config | None = None) -> Json:
    """Returns everything about a rule; `yours` is the user's threshold, null if the rule's default holds."""
    own = config.thresholds if config else {}
    return {
        "id": rule.id,
        "title": rule.title,
        "subject": rule.subject,
        "thresholds": [
            {
                "name": f"{rule.id}.{name}",
                "value": limit.value,
                "unit": limit.unit,
                "about": limit.about,
                "own": limit.own,
                "yours": own.get(f"{rule.id}.{name}"),
            }
            for name, limit in rule.thresholds.items()
        ],
        "needs": [{"name": name, "what": needed(rule)[name]} for name in rule.needs],
        "rests_on": list(rule.rests_on),
        "refutes": list(rule.refutes),
        "doubts": list(rule.doubts),
        "remark": rule.remark,
        "advice": rule.advice,
        "changes": [change.words for change in rule.changes],
        "source": rule.source,
        "explanation": "\n\n".join(rule.paragraphs),
        "silenced": config.silenced.get(rule.id) if config else None,
    }


def needed(rule: Rule) -> dict[str, str]:
    """Returns in words what rules on such a subject may need."""
    if rule.subject == "sweep":
        from tracetui.analysis.sweeps import model as sweep

        return {name: words for name, (_, words) in sweep.NEEDS.items()}
    return NEEDS


def rules_page() -> str:
    """Returns the text of docs/reference/rules.md."""
    return markdown(sorted(all_rules().values(), key=_place)).replace("](prove.md)", "](../prove.md)")


def markdown(rules: list[Rule], config: Config | None = None) -> str:
    """Returns the page of these rules, by letter."""
    lines = [INTRODUCTION]
    lines += ["Bases: " + "; ".join(f"*{name}* ({words})" for name, words in BASES.items()) + ".", ""]
    for letter, about in GROUPS.items():
        members = [rule for rule in rules if rule.id[0] == letter]
        if members:
            lines += [f"## {letter}: {about}", ""]
        for rule in members:
            lines += [*_markdown(rule, config), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _markdown(rule: Rule, config: Config | None) -> list[str]:
    lines = [f"### {rule.id}: {rule.title}", "", "\n\n".join(rule.paragraphs), ""]
    if rule.thresholds:
        lines += ["| threshold | value | |", "|---|--:|---|"]
        for name, limit in rule.thresholds.items():
            lines.append(f"| `{rule.id}.{name}` | {_value(rule, name, limit, config)} | {_origin(limit)} |")
        lines.append("")
    return [*lines, *(f"- {label}: {text}" for label, text in _facts(rule, config))]


def _list(rules: list[Rule], config: Config, page: Layout) -> list[str]:
    lines: list[str] = []
    for letter, about in GROUPS.items():
        members = [rule for rule in rules if rule.id[0] == letter]
        lines += [*([""] if lines else []), about] if members else []
        for rule in members:
            subject = "" if rule.subject == "run" else f" ({SUBJECTS[rule.subject]})"
            silenced = f"; SILENCED: {config.silenced[rule.id]}" if rule.id in config.silenced else ""
            lines += page.field(f"  {rule.id}", f"{rule.title}{subject}{silenced}", width=7)
            for name, limit in rule.thresholds.items():
                text = f"{name} = {_value(rule, name, limit, config)}: {_origin(limit)}"
                lines += page.paragraph(text, indent=" " * 9)
    how = "`tracetui reference rules ID` explains one. "
    yours = 'Yours in .tracetui.toml: [thresholds] "S2.NAME" = 1, [silence] S2 = "why".'
    return [*lines, "", *page.paragraph(how + yours)]


def _explained(rule: Rule, config: Config, page: Layout) -> list[str]:
    lines = page.paragraph(f"{rule.id}: {rule.title}")
    for paragraph in rule.paragraphs:
        lines += ["", *page.paragraph(paragraph)]
    if rule.thresholds:
        lines += ["", "Thresholds"]
    for name, limit in rule.thresholds.items():
        lines += page.field("  ", f"{rule.id}.{name} = {_value(rule, name, limit, config)}: {_origin(limit)}", width=4)
    lines.append("")
    for label, text in _facts(rule, config):
        lines += page.field(label.capitalize(), text, width=10)
    return lines


def _facts(rule: Rule, config: Config | None) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = [
        ("looks at", "" if rule.subject == "run" else SUBJECTS[rule.subject]),
        ("needs", "; ".join(needed(rule)[name] for name in rule.needs)),
        ("rests on", _bases(rule.rests_on)),
        ("refutes", _bases(rule.refutes)),
        ("doubts", _bases(rule.doubts) + (f" (“{rule.remark}”)" if rule.remark else "")),
        ("advice", rule.advice),
        ("changes", "; ".join(change.words for change in rule.changes)),
        ("source", rule.source),
        ("silenced", (config.silenced.get(rule.id) or "") if config else ""),
    ]
    return [(label, text) for label, text in said if text]


def _bases(names: tuple[str, ...]) -> str:
    return ", ".join(BASES[name] for name in names)


def _value(rule: Rule, name: str, limit: Threshold, config: Config | None) -> str:
    """Returns ``50 %``, or ``40 % (yours; 50 % by default)``."""

    def spelled(value: float) -> str:
        return f"{value:g} {limit.unit}".rstrip()

    yours = config.thresholds.get(f"{rule.id}.{name}") if config else None
    return spelled(limit.value) if yours is None else f"{spelled(yours)} (yours; {spelled(limit.value)} by default)"


def _origin(limit: Threshold) -> str:
    return f"{limit.about}{' (own)' if limit.own else ''}"


def _place(rule: Rule) -> tuple[object, ...]:
    """Sorts V before S before T …, then by number."""
    return (*GROUPS, rule.id[0]).index(rule.id[0]), int("".join(filter(str.isdigit, rule.id)) or 0), rule.id
