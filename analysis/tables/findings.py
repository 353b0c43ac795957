"""Findings, findings that were set aside, rules that could not judge, and the evidence of one finding."""

from tracetui.analysis.tables.table import EVERY, Field, Table

_SEVERITY = Field(
    "severity", "Severity", "status", width=10, priority=0,
    about="`invalid` refutes the measurement; `critical`, `warning`; `info` is good to know",
)  # fmt: skip
_RULE = Field("id", "Rule", width=4, priority=0, about="rule that found it: `tracetui reference rules ID` explains it")
_TITLE = Field(
    "name", "Finding", width=40, priority=0, flex=True, key="title", about="what was found, with its main number"
)
_STAKE = Field(
    "impact_ns", "At most", "time", priority=1, main=True, null=True, mark="base_mark",
    about="time per step at stake; none where the finding is not about time",
)  # fmt: skip

FINDINGS = Table(
    "findings",
    "Findings",
    "findings",
    (
        _SEVERITY,
        _RULE,
        _TITLE,
        Field(
            "least_ns", "From", "time", priority=2, key="impact_least_us", main=True, null=True,
            about="the least of it: with the slowest host that fits the clean step",
        ),
        _STAKE,
        Field(
            "after_ns", kind="time", key="impact_after_us", screen=False, null=True,
            about="the most once all findings above it are made; null of the first, and where no replay tells",
        ),
        Field("impact_of", screen=False, about="what all are of: step, or mean_step (rare steps; may exceed a step)"),
        Field(
            "ceiling_percent", "Gain", "percent", width=6, priority=1, main=True, null=True,
            about="the most by which the step would be shorter without it, % of the step",
        ),
        Field(
            "where", kind="list", type="list", screen=False,
            about="where in the program, the most time first: `frame` (the innermost Python function of the program's"
            " own), `module` (classes of the modules around), `range` (where neither is known), `operator`, `calls` and"
            " `us` per step, `percent` of the finding's time, `on_gpu` (else the host's)",
        ),
        Field(
            "evidence", "Evidence", "count", width=8, priority=5, type="list",
            about="numbers it rests on: `label`, `value`, `unit`, and where their rows are: `tab`, `filter`, `row`",
        ),
        Field("formula", screen=False, about="how the finding follows, with the numbers filled in"),
        Field("threshold", screen=False, about="what it was compared with"),
        Field("advice", screen=False, about="what to try"),
        Field("next_command", screen=False, about="what to run next"),
        Field("changes", kind="list", screen=False,
              about="options of the run that do what it advises, the best first: `tracetui try` measures them"),
        Field(
            "proofs", kind="list", type="list", screen=False,
            about="what `tracetui try` measured: `change`, `gain_us` with its 95 % interval (`low_us`, `high_us`),"
            " the `bound_us` that the finding had then, `exceeds`, `compared`, …",
        ),
        Field("reference", screen=False, about="where to read more"),
        Field("remarks", kind="list", screen=False,
              about="what other rules say against the numbers it rests on, and which count the same GPU time"),
        Field("shared_with", kind="list", screen=False, about="ids of other findings that gain the same time"),
        Field(
            "doubted_by", kind="list", screen=False,
            about="rules because of which it may not hold and has lost severity; the first of `remarks` say why",
        ),
        Field(
            "key", screen=False,
            about="name of the finding, the same in every report of the program: the rule, and of a rule that may "
            "find several things a hash of what this one is about",
        ),
    ),
    data=(
        "id", "severity", "name", "impact_ns", "least_ns", "after_ns", "impact_of", "ceiling_percent", "where",
        "evidence", "formula", "threshold", "advice", "next_command", "changes", "proofs", "reference", "remarks",
        "shared_with", "doubted_by", "key",
    ),
    key="id",
    drill="evidence",
)  # fmt: skip
TRIED = Table(
    "tried",
    "Changes tried",
    "changes",
    (
        Field(
            "name", "Change", width=16, priority=0, flex=True,
            about="what was changed; the first row is as it was, `+` was measured beside others",
        ),
        Field(
            "step_ns", "Step", "time", priority=0, main=True, null=True,
            about="a step without a profiler, of as many samples: the median of the rounds",
        ),
        Field(
            "gain_percent", "Gain %", "change", width=6, priority=0, main=True, null=True,
            about="by which it is shorter, % of the step in the same rounds as it was, or with what it was beside",
        ),
        Field(
            "low_percent", "Least %", "change", width=6, priority=1, null=True,
            about="lower end of the gain's 95 % interval, % of the step as it was; none with too few rounds",
        ),
        Field("high_percent", "Most %", "change", width=6, priority=1, null=True,
              about="its upper end, % of the step as it was"),
        Field("rounds", "Rounds", "count", width=6, priority=3, null=True, about="how often both took their turn"),
        Field(
            "memory_bytes", "Memory", "bytes", priority=2, null=True,
            about="the most memory of the GPU that tensors took; on the CPU, of the process",
        ),
        Field(
            "results", "Results", width=8, priority=0, null=True,
            about="`same`: as near as two unchanged runs; `rounding`: as near as rounding errors leave them; `differ`;"
            " `not comparable`",
        ),
        Field("write", "To write", width=12, priority=4, flex=True, null=True, about="what makes it in the program"),
        Field("risk", "Risk", width=12, priority=5, flex=True, null=True, about="what it may break"),
        Field("problem", "Problem", width=12, priority=4, flex=True, null=True, about="why it could not be measured"),
        Field("beside", "Beside", width=12, priority=4, flex=True, null=True, about="what a row with `+` was beside"),
    ),
    data=EVERY,
    reports=("name", "step_ns", "gain_percent", "low_percent", "high_percent", "memory_bytes", "results"),
    base="gain: % of the step as it was",
    key="name",
    section="tried",
)  # fmt: skip
SET_ASIDE = Table(
    "findings_aside",
    "Set aside",
    "findings that were set aside",
    (
        Field("by", "Set aside by", width=12, priority=0, about="validity rule that refutes its base, or silenced"),
        _SEVERITY,
        _RULE,
        _TITLE,
        _STAKE,
    ),
)
ABSTAINED = Table(
    "abstained",
    "Could not judge",
    "rules that abstained",
    (
        Field("id", "Rule", width=4, priority=0, about="rule that could not judge"),
        Field("title", "Looks for", width=18, priority=1, flex=True, about="what it looks for"),
        Field("name", "Missing", width=28, priority=0, flex=True, key="missing",
              about="what is missing, and how to record it"),
    ),
    data=("id", "name"),
    section="findings_abstained",
)  # fmt: skip
EVIDENCE = Table(
    "evidence",
    "Evidence",
    "pieces of evidence",
    (
        Field("name", "Evidence", width=24, priority=0, flex=True, about="what the finding rests on"),
        Field("value", "Value", width=12, priority=0, flex=True, about="number, or word"),
        Field("where", "Enter shows", width=12, priority=1, flex=True, about="tab and rows that prove it"),
    ),
)
