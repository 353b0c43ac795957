"""Runs single rules on runs that a test makes."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from reported import opened
from sample_runs import is_kept

from tracetui.analysis.findings import engine
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts, Subject
from tracetui.analysis.findings.core.finding import Abstention, Finding, Findings
from tracetui.analysis.scope import Scope
from tracetui.parsers import Run, Trace, open_path
from tracetui.parsers.runs.manifest import SCHEMA, RunManifest, parse


def find(subject, config=None, rules=None, looks=None) -> Findings:
    """What the rules say. If a rule raises, the engine reports a bug and goes on; here the test fails."""
    return engine.find(subject, config, rules, _raised, looks)


@cache
def found_in(recording: Path) -> Findings:
    """All findings of a recording, made once for all tests of a process."""
    return find(Facts(opened(recording)))


def _raised(error: Exception) -> None:
    raise error


def manifest(**sections: Any) -> RunManifest:
    """A run.json with these sections."""
    read = parse({"schema": SCHEMA, "status": "finished", **sections})
    assert read is not None
    assert read.notes == ()
    return read


def facts(*sources: Path | Trace, said: RunManifest | None = None, scope: Scope | None = None) -> Facts:
    """The facts of files, or of traces that are there already, of one run."""
    traces = [item for item in sources if not hasattr(item, "exists")]
    paths = [item for item in sources if hasattr(item, "exists")]
    run = open_path(*paths, cache=all(map(is_kept, paths))) if paths else Run(traces[0].source.path, tuple(traces))
    return Facts(replace(run, manifest=said) if said is not None else run, scope=scope)


def judged(id: str, subject: Subject) -> Finding | Abstention | None:
    """What a rule says through the engine: its one finding, its abstention, or nothing."""
    known = {id: all_rules()[id]}
    said = find(subject, rules=known)
    answers = [*said.found, *aside(said), *said.abstained]
    assert len(answers) < 2
    return answers[0] if answers else None


def fires(id: str, subject: Subject) -> Finding:
    """The rule's finding, which must be there, and be whole."""
    said = judged(id, subject)
    assert isinstance(said, Finding), said
    assert said.id == id
    assert all((said.title, said.evidence, said.formula, said.threshold, said.advice))
    return said


def silent(id: str, subject: Subject) -> bool:
    """Whether the rule looked and found nothing."""
    said = judged(id, subject)
    assert said is None, said
    return True


def abstains(id: str, subject: Subject) -> str:
    """What the rule misses."""
    said = judged(id, subject)
    assert isinstance(said, Abstention), said
    return said.missing


def fired(subject: Subject, letters: str = "V") -> set[str]:
    """Ids of all the rules of these groups that find something."""
    known = {id: rule for id, rule in all_rules().items() if id[0] in letters}
    said = find(subject, rules=known)
    return {finding.id for finding in (*said.found, *aside(said))}


def aside(said: Findings) -> list[Finding]:
    """What the rules found, and set aside because the headline says it or nothing follows from it."""
    return [each.finding for each in said.suppressed if each.finding.aside]
