"""The ranges that inference servers set around an iteration: what work it is, for how many requests and tokens."""

from __future__ import annotations

import json
import re

from msgspec import Struct
from msgspec.structs import replace

PREFILL, DECODE, MIXED = "prefill", "decode", "mixed"
_MODES = {"extend": PREFILL, "target_verify": "verify", "draft_extend": "draft", "draft_extend_v2": "draft"}
"""SGLang's modes; others are called as it calls them."""


class Iteration(Struct, frozen=True):
    """What the name of a range says of an iteration; null where it does not say."""

    phase: str
    """``prefill``, ``decode``, ``mixed``, ``draft``, ``verify``, ``diffusion``, or another mode of the server."""
    requests: int | None = None
    tokens: int | None = None
    """New tokens that it computes, of all requests."""
    generated: int | None = None
    """Those of them that are of decoding."""
    context: int | None = None
    """Tokens that are attended, summed over the requests."""
    pairs: float | None = None
    """Pairs of a new and an attended token, summed; of prefill, where a token attends to none after it, about half."""


_SUM = r"(?:{1}(?P<{0}{1}>\d+))?"
_SUMS = rf"\((?:{''.join(_SUM.format('{0}', one) for one in ('sq', 'sk', 'sqsq', 'sqsk'))}|(?P<{{0}}tokens>\d+))\)"
_VLLM = re.compile(rf"execute_(?:\d+_)?context_(?P<c>\d+){_SUMS.format('c')}_generation_(?P<g>\d+){_SUMS.format('g')}")
_SGLANG = re.compile(r"step\[(?P<mode>[A-Z]\w*)(?P<rest>(?: \w+=\d+)*)\]")
_ATOM = re.compile(r"(?P<phase>prefill|decode)\[bs=(?P<bs>\d+) tok=(?P<tok>\d+)\]")
_TENSORRT_LLM = re.compile(r"\[Executor\] _forward_step(?: \d+)?: (?P<c>\d+) ctx reqs, (?P<g>\d+) gen reqs")
REPLAY, OTHER, BEFORE = "launch to launch of a graph", "between launches of a graph", "before a graph is launched"
"""Names of what no range names: a replay of a graph that is launched again and again, what is between, and before."""
_REPLAYS = {REPLAY: "replay", OTHER: "other", BEFORE: "before"}
ATTENTION = "attention of {} requests, {} new tokens each, to {}{}"
"""Names a step that no range names by the shapes of its attention."""
AND = " and "
"""Between two of these, where a step computes a prompt and goes on with it."""
_SUMMED = ("tokens", "generated", "context")
CAUSAL, WHOLE = ", each to those before it", ", each to all"
_ATTENTION = re.compile(ATTENTION.format(r"(\d+)", r"(\d+)", r"(?:(\d+)|several)", f"({CAUSAL}|{WHOLE})?"))
_XDIT = re.compile(r"execute_diffusion_(?P<batch>\d+)_\d+x\d+")
LABELS = {
    "vLLM iteration": _VLLM,
    "SGLang step": _SGLANG,
    "ATOM iteration": _ATOM,
    "TensorRT-LLM forward step #": _TENSORRT_LLM,
    "xDiT execution": _XDIT,
}
"""What the ranges of each server are called together, whose names differ by the work they do."""


def is_causal(concrete: str | None) -> bool | None:
    """Whether a call of attention says that its tokens attend to none after them; None where it does not say.

    Args:
        concrete: JSON text of the values of its inputs: in every one of them, it is the first flag after the dropout.
    """
    try:
        values = json.loads(concrete or "[]")
        after = values[next(at for at, one in enumerate(values) if re.fullmatch(r"\d+\.\d*(e-?\d+)?", str(one))) :]
    except (ValueError, TypeError, RecursionError, StopIteration):
        return None
    return next((one == "True" for one in after if one in ("True", "False")), None)


def label_of(name: str) -> str | None:
    """What ranges like this one are called together; None for one that no server sets around an iteration."""
    return next((label for label, pattern in LABELS.items() if pattern.fullmatch(name.strip())), None)


def iteration_of(name: str) -> Iteration | None:
    """What the name of a range says of the iteration in it; None for other names."""
    name = name.strip()
    if name in _REPLAYS:
        return Iteration(_REPLAYS[name])
    if AND in name and len(parts := [part for part in map(iteration_of, name.split(AND)) if part is not None]) == 2:
        tokens, generated, context = (_sum(*(getattr(part, of) for part in parts)) for of in _SUMMED)
        return Iteration(MIXED, max(part.requests or 0 for part in parts), tokens, generated, context)
    if match := _ATTENTION.fullmatch(name):
        many, each = int(match[1]), int(match[2])
        context = many * int(match[3]) if match[3] else None
        if each == 1:
            return Iteration(DECODE, many, many, many, context, context)
        scores = many * each * (each + 1) / 2 if match[4] == CAUSAL and match[3] == match[2] else None
        if match[4] == WHOLE and context is not None:
            scores = float(each * context)
        return Iteration(PREFILL, many, many * each, 0, context, scores)
    if match := _VLLM.fullmatch(name):
        said = {key: None if value is None else int(value) for key, value in match.groupdict().items()}
        new, generated = (said[f"{one}sq"] if said[f"{one}tokens"] is None else said[f"{one}tokens"] for one in "cg")
        sums = {key: said[key] for key in ("csqsk", "csqsq", "gsqsk")}
        found = _of_parts(int(match["c"]), int(match["g"]), new, generated, _sum(said["csk"], said["gsk"]))
        return replace(found, pairs=_pairs(*sums.values()))
    if match := _TENSORRT_LLM.fullmatch(name):
        return _of_parts(int(match["c"]), int(match["g"]), None, None, None)
    if match := _ATOM.fullmatch(name):
        tokens = int(match["tok"])
        generated = tokens if match["phase"] == DECODE else 0
        return Iteration(match["phase"], int(match["bs"]), tokens, generated)
    if match := _XDIT.fullmatch(name):
        return Iteration("diffusion", int(match["batch"]))
    if match := _SGLANG.fullmatch(name):
        pairs = dict(pair.split("=") for pair in match["rest"].split())
        return _of_mode(match["mode"].lower(), {key: int(value) for key, value in pairs.items()})
    return None


def phase_of(name: str) -> str | None:
    """The phase that the name of a range says; None for other names."""
    found = iteration_of(name)
    return None if found is None else found.phase


def _sum(*values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _of_parts(
    prefilled: int, decoded: int, tokens: int | None, generated: int | None, context: int | None
) -> Iteration:
    phase = MIXED if prefilled and decoded else PREFILL if prefilled else DECODE if decoded else "idle"
    generated = 0 if not decoded else generated
    return Iteration(phase, prefilled + decoded, _sum(0 if not prefilled else tokens, generated), generated, context)


def _of_mode(mode: str, said: dict[str, int]) -> Iteration:
    phase = _MODES.get(mode, mode)
    requests, tokens = said.get("bs"), said.get("toks")
    generated = said.get("g_sq", said.get("g"))
    if phase == DECODE:  # without speculation, each request of a decode step computes one token
        tokens = generated = next((value for value in (tokens, generated, requests) if value is not None), None)
    elif phase == PREFILL:
        generated = 0
    if tokens is None and phase == MIXED:
        tokens = _sum(said.get("c_sq"), said.get("g_sq"))
    attended = [said[key] for key in ("c_sk", "g_sk") if key in said]
    zeros = 0 if "c_sqsk" in said or "g_sqsk" in said else None
    pairs = _pairs(said.get("c_sqsk", zeros), said.get("c_sqsq", zeros), said.get("g_sqsk", zeros))
    return Iteration(phase, requests, tokens, generated, sum(attended) if attended else None, pairs)


def _pairs(prefilled: int | None, squares: int | None, decoded: int | None) -> float | None:
    known = [value for value in (prefilled, squares, decoded) if value is not None]
    return known[0] - known[1] / 2 + known[2] if len(known) == 3 else None
