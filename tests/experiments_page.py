"""docs/experiments.md from recorded results, and the keys in docs/prove.md.

python tests/experiments_page.py                          # writes both pages anew
python tests/experiments_page.py --take FOLDER --name h200  # first keeps results of benchmarks/experiments.py
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import run_json_page
from msgspec import convert

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.report.findings import proof_row
from tracetui.app.reports.proof_words import proof_text
from tracetui.parsers.runs.proofs import Proof

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "experiments"
PAGE = ROOT / "docs" / "experiments.md"
PROVE = ROOT / "docs" / "prove.md"
SOURCE = ROOT / "parsers" / "runs" / "proofs.py"
KEPT = ("name", "what", "profile", "changed", "problem", "waits_for", "clean_step_ns", "device", "torch", "proofs")
INTRODUCTION = """\
# Experiments: what advice gained

Each row is a change that a finding advises, measured by [`tracetui prove`](prove.md) on one GPU beside the run as it
was: in turns, without a profiler, with a 95 % interval. The bound is what the finding said before. Rows where nothing
was gained are kept. Made from `docs/experiments/` by `python tests/experiments_page.py`; recorded by
`python benchmarks/experiments.py`.
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
        lines += ["| run | step | finding | change | gain | bound | |", "|---|--:|---|---|--:|--:|---|"]
        lines += [line for one in experiments for line in _rows(one)]
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
    every = [proof for one in experiments for proof in _proofs(one)]
    measured = [proof for proof in every if proof.measured]
    pairs = [(proof, claim) for proof in measured for claim in proof.claims if claim.bound_ns is not None]
    rules = sorted({str(claim.id) for _, claim in pairs})
    sure = [proof for proof in measured if (proof.low_ns or 0) > 0]
    above = [(proof, claim) for proof, claim in pairs if proof.exceeds(claim)]
    unexplained = [claim for _, claim in above if not claim.also]
    return [
        f"{len(measured)} changes of {len(experiments)} runs were measured, {len(pairs)} bounds of {len(rules)} rules"
        f" ({', '.join(rules)}) put to the test. {len(sure)} changes gained, {len(measured) - len(sure)} did not."
        f" {len(above)} gains were above what the finding counts, {len(unexplained)} of them without a reason that the"
        " change is known for."
    ]


def _rows(experiment: dict[str, Any]) -> list[str]:
    rows = []
    for proof in _proofs(experiment):
        for claim in proof.claims or (None,):
            gain, bound, note = "-", "-", proof.explanation or ""
            if proof.measured:
                gain = f"{format_ns(proof.gain_ns)} ({_ends(proof)})"
                low, high = proof.low_ns, proof.high_ns
                note = "no gain" if low is not None and high is not None and low <= 0 <= high else ""
                note = "slower" if high is not None and high < 0 else note
            if claim is not None and claim.bound_ns is not None:
                bound = format_ns(claim.bound_ns)
                if proof.exceeds(claim):
                    note = "more than the finding counts" if claim.also else "the bound was too low"
            cells = (
                experiment["name"], format_ns(proof.step_ns), (claim.id if claim is not None else None) or "-",
                f"`{proof.change}`", gain, bound, note.replace("|", "\\|"),
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


def keys() -> str:
    """The tables of what proofs.json holds."""
    known: dict[str, tuple[str, list[run_json_page.Field]]] = {}
    for node in ast.parse(SOURCE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            known[node.name] = (ast.get_docstring(node) or "", run_json_page._fields(node))
    lines = []
    for name in ("Proofs", "Proof", "Claim", "Compared"):
        said, fields = known[name]
        lines += ["" if lines else "<!-- keys of proofs.json -->", f"**{name}**: {said}", ""]
        lines += ["| key | type | |", "|---|---|---|"]
        for field in fields:
            if field.name in ("measured", "exceeds"):
                continue
            text = field.text.replace("|", "\\|")
            lines.append(f"| `{field.name}` | {run_json_page._type(field.type, known)} | {text} |")
    return "\n".join([*lines, "<!-- end of keys -->"])


def prove_page() -> str:
    """docs/prove.md with the keys as the structs have them."""
    pattern = r"<!-- keys of proofs\.json -->.*?<!-- end of keys -->"
    return re.sub(pattern, lambda _: keys(), PROVE.read_text(encoding="utf-8"), flags=re.DOTALL)


def take(folder: Path, name: str) -> None:
    """Keeps what the page needs of recorded results."""
    document = json.loads((folder / "experiments.json").read_text(encoding="utf-8"))
    kept = [{key: one[key] for key in KEPT if key in one} for one in document["experiments"]]
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
    options.add_argument("--name", default="h200")
    asked = options.parse_args()
    if asked.take is not None:
        take(asked.take, asked.name)
    PAGE.write_text(page(), encoding="utf-8")
    PROVE.write_text(prove_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
