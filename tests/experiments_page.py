"""docs/reference/experiments.md from recorded results, and docs/reference/proofs-json.md from the structs.

python tests/experiments_page.py                          # writes both pages anew
python tests/experiments_page.py --take FOLDER --name h200  # first keeps results of benchmarks/experiments.py
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import run_json_page
from msgspec import convert

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.engine import findings_of
from tracetui.analysis.report.findings import proof_row
from tracetui.analysis.scope import Scope
from tracetui.app.reports.finding_words import proof_text
from tracetui.parsers import open_path
from tracetui.parsers.runs.proofs import Claim, Proof

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "reference" / "experiments"
PAGE = ROOT / "docs" / "reference" / "experiments.md"
PROOFS = ROOT / "docs" / "reference" / "proofs-json.md"
SOURCE = ROOT / "parsers" / "runs" / "proofs.py"
KEPT = (
    "now",
    "name",
    "what",
    "profile",
    "changed",
    "problem",
    "waits_for",
    "clean_step_ns",
    "device",
    "torch",
    "proofs",
)
INTRODUCTION = """\
# Experiments: what advice gained

Made from `docs/reference/experiments/` by `make docs`; [prove.md](../prove.md#what-advice-gained) says how to read it.
"""
PROOFS_HEAD = """\
# proofs.json

What `tracetui try` keeps beside the recordings; [prove.md](../prove.md) is about it. Made from
`parsers/runs/proofs.py` by `make docs`.

"""


def results() -> dict[str, Any]:
    """The recorded results by the name of their file, in order."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(RESULTS.glob("*.json"))}


def page() -> str:
    """The whole page."""
    lines = [INTRODUCTION]
    for name, document in results().items():
        experiments = document["experiments"]
        known = next((one for one in experiments if one.get("device")), {})
        lines += [
            f"## {known.get('device') or name}, torch {known.get('torch') or '?'}",
            "",
            *_summary(experiments),
            "",
        ]
        lines += ["| run | step | finding | change | gain | said | now | |", "|---|--:|---|---|--:|--:|--:|---|"]
        lines += [line for one in experiments for line in _rows(one)]
        notes = RESULTS / f"{name}.md"
        if notes.exists():
            lines += ["", notes.read_text(encoding="utf-8").rstrip()]
        lines += ["", "### The runs", ""]
        for one in experiments:
            lines += [f"- **{one['name']}**: {one['what']}.", f"  `tracetui profile {one['profile']}`"]
            if one.get("changed"):
                lines.append(f"  changed: `{one['changed']}`")
            verdict = (one.get("waits_for") or {}).get("sentence")
            lines += [f"  {verdict}"] if verdict else []
            lines += [f"  {id_text}" for id_text in _sentences(one)]
            if one.get("problem"):
                lines.append(f"  Not all of it was done: {one['problem']}.")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _proofs(experiment: dict[str, Any]) -> list[Proof]:
    return [convert(proof, Proof) for proof in experiment["proofs"]]


def _summary(experiments: list[dict[str, Any]]) -> list[str]:
    every = [(one, proof) for one in experiments for proof in _proofs(one)]
    measured = [(one, proof) for one, proof in every if proof.measured]
    tested = [(one, proof, claim) for one, proof in measured for claim in proof.claims if claim.bound_ns is not None]
    rules = sorted({str(claim.id) for _, _, claim in tested})
    sure = sum((proof.low_ns or 0) > 0 for _, proof in measured)
    more = sum(proof.does_more(claim) for _, proof, claim in tested)
    above = sum(proof.exceeds(now) for one, proof, claim in tested if (now := _now(one, proof, claim)) is not None)
    runs = len({one["name"] for one, _ in measured})
    return [
        f"{len(measured)} changes of {runs} runs were measured; {len(tested)} bounds of {len(rules)} rules"
        f" ({', '.join(rules)}) were put to the test. {sure} changes gained, {len(measured) - sure} did not. {more}"
        f" gains were beyond the bound that was said; {above} are beyond what the rules hold for possible now."
    ]


def _now(experiment: dict[str, Any], proof: Proof, claim: Claim) -> Claim | None:
    """What today's rules say of the same change and finding; None where they don't make that finding any more."""
    found = (one for one in experiment.get("now", ()) if (one["id"], one["change"]) == (claim.id, proof.change))
    said = next(found, None)
    return None if said is None else convert({key: value for key, value in said.items() if key != "change"}, Claim)


def _rows(experiment: dict[str, Any]) -> list[str]:
    rows = []
    for proof in _proofs(experiment):
        for claim in proof.claims or (None,):
            gain, said, now, note = "-", "-", "-", proof.explanation or ""
            if proof.measured:
                gain = f"{format_ns(proof.gain_ns)} ({_ends(proof)})"
                low, high = proof.low_ns, proof.high_ns
                note = "no gain" if low is not None and high is not None and low <= 0 <= high else ""
                note = "slower" if high is not None and high < 0 else note
            if claim is not None and claim.bound_ns is not None:
                said = format_ns(claim.bound_ns)
                note = "beyond what was said" if proof.does_more(claim) else note
                today = _now(experiment, proof, claim)
                if today is not None and today.bound_ns is not None:
                    now = format_ns(today.bound_ns)
                    if today.most_ns is not None and today.most_ns > today.bound_ns:
                        now += f", {format_ns(today.most_ns)}"
                    note += "; still beyond" if proof.exceeds(today) else ""
            cells = (
                experiment["name"], format_ns(proof.step_ns), (claim.id if claim is not None else None) or "-",
                f"`{proof.change}`", gain, said, now, note.replace("|", "\\|"),
            )  # fmt: skip
            rows.append(f"| {' | '.join(cells)} |")
    return rows


def _ends(proof: Proof) -> str:
    return "-" if proof.low_ns is None else f"{format_ns(proof.low_ns)} to {format_ns(proof.high_ns)}"


def _sentences(experiment: dict[str, Any]) -> list[str]:
    said = []
    for proof in _proofs(experiment):
        for claim in proof.claims or (None,):
            who = f"{claim.id}: " if claim is not None else ""
            said.append(f"{who}{proof_text(proof_row(proof, claim))}.")
    return said


def proofs_page() -> str:
    """docs/reference/proofs-json.md: the tables of what proofs.json holds."""
    ours = ("measured", "exceeds", "does_more")
    return PROOFS_HEAD + run_json_page.tables(SOURCE, ("Proofs", "Proof", "Claim", "Compared"), ours)


def bounds_now(folder: Path) -> list[dict[str, Any]]:
    """What today's rules say of the changes of a recorded run."""
    run = open_path(folder, cache=False)
    facts = Facts(run, run.main, Scope())
    found = findings_of(facts).found
    return [
        {
            "id": one.id, "change": given.text, "bound_ns": one.impact_ns, "bound_percent": one.ceiling_percent,
            "sure_percent": one.sure_percent, "also": given.change.also or None, "most_ns": given.most_ns(facts),
        }
        for one in found for given in one.changes
    ]  # fmt: skip


def judge(folder: Path, name: str) -> None:
    """Writes beside each experiment what today's rules say of its recording, in a folder of that name."""
    file = RESULTS / f"{name}.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    for one in document["experiments"]:
        if (folder / one["name"]).is_dir():
            one["now"] = bounds_now(folder / one["name"])
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def take(folder: Path, name: str) -> None:
    """Keeps what the page needs of recorded results."""
    document = json.loads((folder / "experiments.json").read_text(encoding="utf-8"))
    kept = [{key: one[key] for key in KEPT if key in one} for one in document["experiments"] if one["proofs"]]
    for one in kept:
        for proof in one["proofs"]:
            proof["command"] = []
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"schema": document["schema"], "experiments": kept}, indent=1)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def main() -> int:
    """Writes the pages anew."""
    options = argparse.ArgumentParser()
    options.add_argument("--take", type=Path, metavar="FOLDER")
    options.add_argument("--judge", type=Path, metavar="RUNS", help="recordings, a folder for each experiment")
    options.add_argument("--name", default="h200")
    asked = options.parse_args()
    if asked.take is not None:
        take(asked.take, asked.name)
    if asked.judge is not None:
        judge(asked.judge, asked.name)
    PAGE.write_text(page(), encoding="utf-8")
    PROOFS.write_text(proofs_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
