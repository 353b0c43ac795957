"""Rules on work that is done too often, or in the wrong place, by the frames of the program that it is under."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracetui.analysis import host_lines
from tracetui.analysis.attribution.calltree import NONE, numbered_by, parents_of, row_ids
from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.attribution.place import FRAME, PART, Place, call_name, forwards, grouped, own_frames
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.base.own_code import COMPILED
from tracetui.analysis.dependencies.model import Model
from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.where import host_path
from tracetui.analysis.findings.declared.host import S29, S30, S35, S39
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.host.threads import WAITS
from tracetui.analysis.sampled_calls import located
from tracetui.analysis.selection import step_at
from tracetui.parsers.arrays import Bools, Floats, Ints
from tracetui.parsers.nesting import nearest
from tracetui.parsers.runs.samples import Frame

LEASTPART = 0.01
"""Calls that take less than this part of the step are not named."""
MOST_NAMED = 3
HALF = 0.5
INSTEAD = (
    (r"^backward \((_tensor\.py|autograd)\)",
     "Fewer and larger micro-batches, as far as memory allows: each launches as many kernels as a large one does."),
    (r"(LSTM|GRU|RNN)Cell|lstm_cell|gru_cell|rnn_\w+_cell",
     "Call nn.LSTM, nn.GRU or nn.RNN once over the whole sequence: cuDNN then runs all of its steps in one call."),
    (r"histc|histogram|bincount|quantile|aten::(unique|topk|sort)",
     "Compute such statistics on the GPU, over all tensors at once, and in every n-th step only."),
    (r"\bitem\b|_local_scalar_dense|tolist|is_nonzero",
     "Keep the values in one tensor on the GPU and read it once, after the loop, or not at all."),
    (r"norm$|norm\b|clip_grad",
     "torch.nn.utils.clip_grad_norm_(parameters, …, foreach=True) or torch._foreach_norm does it for all tensors."),
    (r"aten::(to|copy_|_to_copy|cpu|cuda)$|\.(to|cpu|cuda)$",
     "Copy once: into one flat buffer in pinned memory, non_blocking, and split it afterwards."),
    (r"aten::(mul|add|div|sub|sqrt|addcmul|addcdiv|lerp|zero|pow|neg)_?$",
     "The foreach variant (torch._foreach_mul_, …) takes a list of tensors; an optimizer has fused=True."),
    (r"(^|\.)(named_)?parameters\b", "Make the list of parameters once, before the loop over steps."),
    (r"cat$|stack$", "Write into a buffer of the full size in place of growing a tensor."),
)  # fmt: skip
"""What does the same for all of them, by the name of what is repeated."""
IN_GENERAL = (
    "Do it for all of them in one call: a batch dimension, torch.vmap, one wide GEMM; do fewer; or let torch.compile or"
    " a CUDA graph take the loop."
)
ON_THE_HOST = (
    "It launches nothing: let NumPy or a compiled library do all of it in one call, keep results that come again"
    " (functools.cache), or do it in a loader's workers or a thread one step ahead."
)


class Units(Struct, frozen=True):
    """What functions of the program called, as rows of a table, and what those calls take."""

    table: pl.DataFrame
    """unit (host row), frame (host row), step, label, same (a number for each frame, step and label), is_pass (a
    backward pass), host_ns (on the critical path, per step), spent_ns (as recorded), gpu_ns: of the forward call;
    backward tasks count on the path. layer: how many layers began before."""
    within: Ints
    """Of each unit the one that it is in, as places in the table; -1 for none."""
    of_call: Ints
    """Of each host row the innermost unit that it is in, or whose gradients it computes, as place; -1 for none."""


_CALLS_HOOKS = re.compile(r"^torch/nn/modules/module\.py\(\d+\): (?:_call_impl|inner)$")
_NO_LOOP = re.compile(rf"torch/(?:optim|autograd)/|.*(?:{COMPILED.pattern})")
"""Optimizers are F4's; a backward pass has its network's length, and a compiled function is one, written out."""
_BACKWARD = r"^torch/(?:_tensor|autograd/__init__)\.py\(\d+\): backward$"
_ENGINE = _BACKWARD.replace("backward", "(?:backward|grad)")
_WEIGHED = re.compile(r"^aten::(?:linear|matmul|mm|bmm|addmm|baddbmm|einsum|conv\w*|scaled_dot_product_attention)$")
"""What multiplies by weights; in a function, which of its calls have which weights is not known."""


def units(facts: Facts, looping: int) -> Units | None:
    """The calls directly under the program's own functions, and their calls of each other, within the steps.

    And what one call of a library's function called `looping` times or more, under that function.
    """
    path, host = host_path(facts), facts.trace.host
    if path is None:
        return None
    frames, parent = own_frames(facts.trace), parents_of(host)
    row = np.arange(host.height)
    inside = scope_mask(facts.sel)
    function = frames.own & ~names.matching(host["name"], lambda name: bool(PART.search(name)))
    is_module = of_kinds(host["kind"], "module")
    unit = np.flatnonzero((frames.unit[:-1] == row) & (frames.frame[:-1] >= 0) & inside)
    # what holds modules is a part of the network
    unit = unit[~np.isin(unit, frames.unit[:-1][is_module]) | is_module[unit]]
    called = np.where(frames.called[unit] >= 0, frames.called[unit], unit)
    is_pass = names.matching(host["name"], lambda name: bool(re.search(_BACKWARD, name)))
    backward, passes = np.flatnonzero(is_pass), np.full(host.height + 1, NONE)
    passes[nearest(parent, function, backward)] = backward
    own = _own_calls(host, parent, np.flatnonzero(function & inside), function, is_module, passes[:-1] >= 0)
    # what runs a whole pass is told as its backward pass
    unit, called = np.concatenate((unit, own)), np.concatenate((called, np.where(passes[own] >= 0, passes[own], own)))
    frame = nearest(parent, function, parent[unit])
    looped, around = _looped(host, parent, np.flatnonzero(inside), frames.own, is_module, looping)
    unit, called, frame = (np.concatenate(of) for of in ((unit, looped), (called, looped), (frame, around)))
    unit, called, frame = (of[frame >= 0] for of in (unit, called, frame))
    place, is_unit = np.full(host.height + 1, NONE), np.zeros(host.height, np.bool_)
    place[unit], is_unit[unit] = np.arange(unit.size), True
    innermost = place[nearest(parent, is_unit, row)]
    of_call = np.where(innermost >= 0, innermost, np.append(innermost, NONE)[forwards(facts.trace)[:-1]])
    within = place[nearest(parent, is_unit, parent[unit])]
    # of a hook none is told: it is called in each layer
    above = nearest(parent, function | is_module, parent[unit])
    layer = np.searchsorted(_layers(host, parent, function, is_module & inside), np.where(is_module[above], 0, unit))
    launch = row_ids(facts.launches["launch"])
    path_ns, gpu_ns = np.zeros(unit.size + 1), np.zeros(unit.size + 1)
    np.add.at(path_ns, np.append(of_call, NONE)[path.row], path.ns / path.steps)
    np.add.at(gpu_ns, np.append(innermost, NONE)[launch], facts.launches["duration"].fill_null(0).to_numpy())
    on_path, on_gpu, inner = path_ns.tolist(), gpu_ns.tolist(), np.argsort(-unit)
    for at, outer in zip(inner.tolist(), within[inner].tolist(), strict=True):  # inside comes after what it is in
        on_path[outer] += on_path[at]
        on_gpu[outer] += on_gpu[at]
    label = host["name"].gather(called)
    table = pl.DataFrame(
        {
            "unit": unit,
            "frame": frame,
            "step": step_at(facts.sel.steps, host["start"].to_numpy()[unit]).fill_null(NONE),
            "label": label.cast(pl.String),
            "same": label.to_physical(),
            "is_pass": is_pass[called],
            "host_ns": on_path[:-1],
            "spent_ns": host["duration"].to_numpy()[unit],
            "gpu_ns": on_gpu[:-1],
            "layer": layer,
        }
    )
    return Units(table.with_columns(same=numbered_by(table, ("frame", "step", "same"))), within, of_call)


def _looped(
    host: pl.DataFrame, parent: Ints, rows: Ints, own: Bools, is_module: Bools, looping: int
) -> tuple[Ints, Ints]:
    """Operators, and functions with operators, that one call of a library's function called so often; that function."""
    operator = of_kinds(host["kind"], "operator")
    operators = rows[operator[rows] & ~np.append(operator, False)[parent[rows]]]
    library = ~own & names.matching(host["name"], lambda name: bool(FRAME.fullmatch(name)))
    function = own | library | is_module
    holding = np.unique(nearest(parent, function, parent[operators]))
    called = np.union1d(operators, holding[library[holding] & (holding >= 0)])
    above = nearest(parent, function, parent[called])
    called, above = called[above >= 0], above[above >= 0]
    loops = library & ~names.matching(host["name"], lambda name: bool(_NO_LOOP.match(name)))
    called, above = called[loops[above]], above[loops[above]]
    table = pl.DataFrame({"row": called, "frame": above, "name": host["name"].gather(called)})
    table = table.filter(pl.len().over("frame", "name") >= looping)
    return table["row"].to_numpy(), table["frame"].to_numpy()


def _layers(host: pl.DataFrame, parent: Ints, function: Bools, is_module: Bools) -> Ints:
    """The outermost modules that a call of a function calls once."""
    rows = np.flatnonzero(is_module)
    above = nearest(parent, function | is_module, parent[rows])
    rows, above = rows[above >= 0], above[above >= 0]
    rows, above = rows[function[above]], above[function[above]]
    called = pl.DataFrame({"row": rows, "frame": above, "name": host["name"].gather(rows)})
    return called.filter(pl.len().over("frame", "name") == 1)["row"].to_numpy()


def _own_calls(host: pl.DataFrame, parent: Ints, rows: Ints, function: Bools, is_module: Bools, whole: Bools) -> Ints:
    """Of the program's own functions those that another one calls, or a module as a hook, and that are no network.

    What multiplies by weights may be a layer, which another call of the function is not; with a backward pass of its
    own it is a `whole` pass.
    """
    above = nearest(parent, function | is_module, parent[rows])
    hook = names.matching(host["name"], lambda name: bool(_CALLS_HOOKS.match(name)))
    forward = names.matching(host["name"], lambda name: name.endswith(": forward"))
    called = (above >= 0) & (
        ~np.append(is_module, False)[above] | (np.append(hook, False)[parent[rows]] & ~forward[rows])
    )
    rows = rows[called]
    weighed = names.matching(host["name"], lambda name: bool(_WEIGHED.match(name)))
    functions = np.append(nearest(parent, function, np.arange(parent.size)), NONE)
    holding = np.append(np.zeros(parent.size, np.bool_), True)  # the last is no function
    within = functions[np.flatnonzero(is_module | weighed)]
    while (within := np.unique(within[~holding[within]])).size:
        holding[within] = True
        within = functions[parent[within]]
    return rows[~holding[rows] | whole[rows]]


@looks_for(S29)
def repeated_calls(facts: Facts, limits: Limits) -> Iterator[Finding]:
    found = units(facts, round(limits.library_calls))
    if found is None:
        return
    host, model = facts.trace.host, facts.host_model
    step_ns = facts.page_step.ns if model is None else model.step_ns
    # of a stretch of time, what goes on for most of it are the program's own steps
    passes_of = () if facts.manifest is None else facts.manifest.measurement.passes
    by_time = any(each.name == "rich" and each.steps is None for each in passes_of)
    same, is_pass = "same", pl.col("is_pass")
    passes = is_pass.sum().over("frame", "step")
    many = (pl.len().over(same) >= limits.calls) | ((passes >= limits.passes) & (pl.len().over(same) == passes))
    often = found.table.with_row_index("place").filter(many)
    # what comes once between one layer and the next is a part of the network, unless it is a pass through all of it
    between = (pl.col("layer").diff() > 0).mean().over(same).fill_null(0)
    often = often.sort("unit").filter(is_pass | (between <= HALF))
    # what the GPU takes long for would take it as long in one call
    often = often.filter(pl.col("gpu_ns").sum().over(same) < pl.col("spent_ns").sum().over(same))
    # and so would what waits for other threads
    often = often.with_columns(waited=pl.Series(_waited(host, found)).gather(often["place"]))
    often = often.filter(pl.col("waited").sum().over(same) < HALF * pl.col("spent_ns").sum().over(same))
    if not often.height:
        return
    shown = own_frames(facts.trace).frame[often["frame"].to_numpy()]
    often = often.with_columns(function=host["name"].gather(shown).cast(pl.String))
    often = often.filter(pl.col("host_ns").sum().over("function", "label") >= LEASTPART * step_ns).sort("unit")
    for (function,), calls in often.group_by("function", maintain_order=True):
        # the last one stays: what waits for the GPU would do so once for all
        again = calls.filter(pl.int_range(pl.len()).over(same) < pl.len().over(same) - 1)["place"].to_numpy()
        start, end, launched = _taken(facts, found, again)
        if by_time and end.max() - start.min() > HALF * step_ns:
            continue
        bound = gain.of_calls(facts, start, end, launched)
        bound = bound if model is None else gain.of_the_step(bound, model)
        if (bound.ceiling_percent or 0.0) < limits.share_percent:
            continue
        # what does all of it at once takes time too
        yield _repetition(facts, str(function), calls, replace(bound, least_ns=0.0))


def _waited(host: pl.DataFrame, found: Units) -> Ints:
    """How long each unit waits for other threads of the program, or sleeps, as recorded."""
    rows = np.flatnonzero(names.matching(host["name"], lambda name: bool(WAITS.match(name))))
    waited = np.zeros(found.within.size + 1, np.int64)
    np.add.at(waited, found.of_call[rows], host["duration"].fill_null(0).to_numpy()[rows])
    for at in np.argsort(-found.table["unit"].to_numpy()):
        waited[found.within[at]] += waited[at]
    return waited[:-1]


def _taken(facts: Facts, found: Units, places: Ints) -> tuple[Ints, Ints, Ints]:
    """Starts and ends of these calls and of what computes their gradients, and the device rows that both launch."""
    host, device = facts.trace.host, facts.trace.device
    chosen = np.zeros(found.within.size + 1, np.bool_)
    chosen[places] = True
    chosen[:-1] = nearest(found.within, chosen[:-1], np.arange(found.within.size)) >= 0
    inside = chosen[found.of_call]
    start = host["start"].to_numpy()[inside]
    launched = np.append(inside, False)[row_ids(device["launch"])]
    return start, start + host["duration"].to_numpy()[inside], np.flatnonzero(launched)


def _repetition(facts: Facts, function: str, calls: pl.DataFrame, bound: gain.Gain) -> Finding:
    groups = (
        calls.group_by("label")
        .agg(pl.len(), pl.col("host_ns").sum(), pl.col("gpu_ns").sum())
        .sort("host_ns", "label", descending=[True, False])
    )
    labels = [call_name(label) for label in groups["label"]]
    number = [
        f"{words.count(round(facts.per_step(rows)))} × {label}"
        for label, rows in zip(labels, groups["len"], strict=True)
    ]
    on_path = Evidence("on the critical path as replayed", float(groups["host_ns"].sum()), "ns", Query("host"))
    return bound.finding(
        f"Do at once what {function} does one by one: {words.listed(number, MOST_NAMED)} {program.per(facts)}",
        (
            on_path,
            Evidence("their GPU work", facts.per_step(float(groups["gpu_ns"].sum())), "ns", Query("kernels")),
            *(
                Evidence(f"{label}, on the critical path", ns, "ns", Query("host", row=row))
                for label, ns, row in zip(labels, groups["host_ns"], groups["label"], strict=True)
            ),
        ),
        f"with one of each call left in place of {words.count(facts.per_step(calls.height))}: {bound.why}",
        advice=_in_place_of(labels) or (IN_GENERAL if groups["gpu_ns"].sum() else ON_THE_HOST),
    )


def _in_place_of(labels: list[str]) -> str:
    """What to do about these calls, the one that takes most first; empty where no name tells."""
    fitting = [advice for label in labels for pattern, advice in INSTEAD if re.search(pattern, label)]
    return " ".join(list(dict.fromkeys(fitting))[:2])


@looks_for(S39)
def own_work(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    model, of, host = facts.host_model, facts.sampled, facts.trace.host
    if not facts.is_without_gpu and (model is None or gain.gpu_is_limit(facts)):
        return
    if of is None:
        yield Abstention("samples of the program's lines: launch with tracetui profile, with py-spy at hand")
        return
    own, parts = own_frames(facts.trace).own, _spare_parts(facts)
    functions: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for name in host["name"].filter(own).unique().cast(pl.String):
        if match := FRAME.fullmatch(name):
            functions.setdefault(_short(match["file"], match["function"]), []).append((int(match["line"]), name))

    def part(frame: Frame, in_module: bool) -> float:
        return 1.0 if model is not None else parts.get(_recorded(functions, frame), _UNKNOWN)[in_module]

    within = of_kinds(host["kind"], "operator", "module")
    begun, lasting = host["start"].to_numpy()[within], host["duration"].to_numpy()[within]
    inside = intervals.union(begun, begun + lasting)
    for work in host_lines.own_work(of, part):
        lines, known = work.lines, of.spent(work.ns)
        percent, timed = float(known["percent"] or 0.0), known["step_ns"] is not None
        if percent < limits.share_percent or not timed:
            return
        ns = percent / 100 * facts.page_step.ns
        first = max(lines, key=lines.__getitem__)
        file, function = first.file.rpartition("/")[2], first.function.rpartition(".<locals>.")[2]
        named = _recorded(functions, first)
        if model is not None:  # operators wait for the GPU, and how long differs with what is recorded
            left = max(ns - parts.get(named, _UNKNOWN)[2], 0.0)
            percent, ns = percent * left / ns, left
            if percent < limits.share_percent:
                continue
        calls = own & names.matching(host["name"], named.__eq__)
        start = host["start"].to_numpy()[calls]
        when = intervals.union(start, start + host["duration"].to_numpy()[calls])
        frame = named or f"{file}: {function}"
        longest = lines.most_common(MOST_NAMED)
        taken = [float(of.spent(spent)["step_ns"] or 0.0) for _, spent in longest]
        where = tuple(
            Place(frame, "", "", "", line.line, 0.0, each, 100 * each / ns, on_gpu=False)
            for (line, _), each in zip(longest, taken, strict=True)
        )
        # of steps that differ, those that were sampled have more or less of it than the others
        more = of.scatter_percent(work.by_step)
        most_ns, most = ns * (1 + more / percent), min(percent + more, 100.0)
        bound = gain.Gain(most_ns, most, f"at most {words.percent(most)}, by how the steps differ", 0.0, 0.0, host=when)
        if model is not None:
            bound = replace(bound, host=intervals.subtract(when, inside))
            left = max(facts.page_step.ns - model.host_free_ns, 0.0)
            bound = gain.limited(bound, left, facts.page_step.ns, f"the GPU alone takes {words.ns(model.host_free_ns)}")
        again = _computed_again(facts, np.flatnonzero(calls))
        finding = bound.finding(
            f"Do less in {function}, {file}:{first.line}: {words.percent(percent)} of the sampled steps"
            if again is None
            else f"Compute once {file}:{first.line}, {function}: its result is the same in each step",
            tuple(
                Evidence(f"line {line.line}", each, "ns", Query("host:lines", row=f"{line.file}:{line.line}"))
                for (line, _), each in zip(longest, taken, strict=True)
            ),
            f"{words.ns(ns)} of the clean step by samples, outside modules, backward pass and optimizer; {bound.why}"
            + (
                "" if again is None else f"; all operators of {again} yield the same bits in each of the steps compared"
            ),
            advice="" if again is None else S35.advice,
        )
        yield dataclasses.replace(finding, where=where)


def _computed_again(facts: Facts, calls: Ints) -> str | None:
    """The function whose results are the same in each step and that all of these calls are in, or are; else None."""
    host = facts.trace.host
    told = () if facts.manifest is None else facts.manifest.measurement.unchanged
    for one in told if calls.size else ():
        name = f"{one.file}({one.line}): {one.function}"
        is_it = names.matching(host["name"], lambda frame, name=name: f"/{frame}".endswith(f"/{name}"))  # type: ignore[misc]
        if one.whole and (nearest(parents_of(host), is_it, calls) >= 0).all():
            return name
    return None


def _short(file: str, function: str) -> tuple[str, str]:
    """How a recording and samples both name a function: by the last part of its file's path and of its own name."""
    return file.rpartition("/")[2], function.rpartition(".")[2]


def _recorded(functions: dict[tuple[str, str], list[tuple[int, str]]], frame: Frame) -> str:
    """The recording's name of the function that a sampled line is in: the last of its name that begins before it."""
    alike = functions.get(_short(frame.file, frame.function), [])
    return max(((line, name) for line, name in alike if line <= frame.line), default=(0, ""))[1]


_UNKNOWN = (1.0, 0.0, 0.0)


def _spare_parts(facts: Facts) -> dict[str, tuple[float, float, float]]:
    """By function of the program, as recorded: the part of its own time without operators that gradients flow through.

    And the part without any operator, which is Python's own, and how long its operators take in a step.
    """
    host, frames = facts.trace.host, own_frames(facts.trace)
    parent, operator, forward = parents_of(host), of_kinds(host["kind"], "operator"), row_ids(host["forward"])
    function = of_kinds(host["kind"], "module") | names.matching(
        host["name"], lambda name: bool(FRAME.fullmatch(name)) and not PART.search(name)
    )
    learned = np.zeros(host.height + 1, np.bool_)
    learned[frames.operator[forward[forward >= 0]]] = True
    rows = np.flatnonzero(function | operator)
    above = nearest(parent, function | operator, parent[rows])
    rows, above = rows[above >= 0], above[above >= 0]
    rows, above = rows[function[above]], above[function[above]]
    duration = host["duration"].fill_null(0).to_numpy()

    def inside(what: Bools) -> Floats:
        chosen = what[rows]
        return np.bincount(above[chosen], duration[rows[chosen]], host.height).astype(np.float64)

    own = frames.own & function
    spent = pl.DataFrame(
        {
            "name": host["name"].filter(own).cast(pl.String),
            "own": (duration - inside(function))[own],
            "learned": inside(operator & learned[:-1])[own],
            "operators": inside(operator)[own],
        }
    )
    sums = spent.group_by("name").sum().filter(pl.col("own") > 0)
    return {
        name: (max(1 - of_network / ns, 0.0), max(1 - of_all / ns, 0.0), facts.per_step(of_all))
        for name, ns, of_network, of_all in sums.iter_rows()
    }


@looks_for(S30)
def computed_twice(facts: Facts, limits: Limits) -> Iterator[Finding]:
    if (model := facts.host_model) is not None:
        yield from filter(None, (_forward_again(facts, model, limits), _backward_again(facts, limits)))


def _backward_again(facts: Facts, limits: Limits) -> Finding | None:
    """Of what a backward pass went through several times, all passes but the last."""
    host = facts.trace.host
    forward, parent = row_ids(host["forward"]), parents_of(host)
    rows = np.flatnonzero((forward >= 0) & scope_mask(facts.sel))
    rows = rows[nearest(parent, forward >= 0, parent[rows]) < 0]
    # what a gradient is taken of again, as create_graph has it, is another pass through the same
    differentiated = np.zeros(host.height, np.bool_)
    differentiated[forward[forward >= 0]] = True
    holding = nearest(parent, np.isin(np.arange(host.height), rows), np.flatnonzero(differentiated))
    rows = rows[~np.isin(rows, holding)]
    tasks = pl.DataFrame({"row": rows, "of": forward[rows]}).sort("row")
    tasks = tasks.with_columns(number=pl.int_range(pl.len()).over("of"), passes=pl.len().over("of"))
    again = tasks.filter(pl.col("number") < pl.col("passes") - 1)
    if not again.height:
        return None
    bound = gain.of_host_rows(facts, np.isin(np.arange(host.height), again["row"].to_numpy()))
    # gradients that are needed one by one stay apart
    bound = replace(bound, least_ns=0.0, sure_percent=0.0)
    if (bound.ceiling_percent or 0.0) < limits.share_percent:
        return None
    passes = int(np.median(again["passes"].to_numpy()))
    is_module = of_kinds(host["kind"], "module")
    above = nearest(parent, is_module, again["of"].to_numpy())
    within = [call_name(name) for name in host["name"].gather(above[above >= 0]).cast(pl.String).mode().sort()[:1]]
    through = f" through {within[0]}" if within else ""
    finding = bound.finding(
        f"Call backward once: {passes} backward passes go{through} again, of the same forward pass",
        (
            Evidence("backward operators run again", facts.per_step(again.height), "", Query("operators")),
            Evidence("that ran once", facts.per_step(tasks.filter(pl.col("passes") == 1).height), ""),
        ),
        f"with the last of these passes alone: {bound.why}",
        advice="Add the losses up, each with its weight, and call backward() once, without retain_graph. Where a loss"
        " is not meant to train what is before it (a discriminator's): detach() its input. Gradients of several"
        " outputs: torch.autograd.grad with is_grads_batched=True.",
    )
    start, taken = (host[name].to_numpy() for name in ("start", "duration"))
    called = np.flatnonzero(names.matching(host["name"], lambda name: bool(re.search(_ENGINE, name))))
    when = start[again["row"].to_numpy()]
    of_call = np.searchsorted(start[called], when, "right") - 1
    inside = (of_call >= 0) & (when < np.append(start + taken, 0)[called[of_call]] if called.size else False)
    called = called[np.unique(of_call[inside])]
    if not called.size:
        return finding
    name = call_name(str(host["name"][int(called[0])]))
    table = located(facts.trace, called).with_columns(call=called, operator=pl.lit(name, pl.Categorical()))
    where = grouped(table, taken[called], facts.step_count, on_gpu=False)
    return dataclasses.replace(finding, where=tuple(where)) if where else finding


def _forward_again(facts: Facts, model: Model, limits: Limits) -> Finding | None:
    host = facts.trace.host
    parent, is_module = parents_of(host), of_kinds(host["kind"], "module")
    above, inside = np.append(parent, NONE), np.zeros(host.height, np.bool_)
    rows = np.flatnonzero(is_module & scope_mask(facts.sel))
    again = rows[_in_backward(host, rows)]
    outermost = again[nearest(parent, is_module, above[again]) < 0]
    if not outermost.size:
        return None
    inside[outermost] = True
    work = np.flatnonzero(nearest(parent, inside, row_ids(facts.trace.device["launch"])) >= 0)
    start = host["start"].to_numpy()[outermost]
    end = start + host["duration"].to_numpy()[outermost]
    own = intervals.union(start, end)
    most = intervals.union(*(np.concatenate(both) for both in zip(own, _checkpointing(facts), strict=True)))
    bound = gain.of_the_step(gain.of_calls(facts, *most, work), model)
    if (bound.ceiling_percent or 0.0) < limits.share_percent:
        return None
    name = call_name(str(host["name"].gather(outermost).cast(pl.String).mode().sort()[0]))
    calls, spent = facts.per_step(outermost.size), float(facts.trace.device["duration"].gather(work).sum())
    return bound.finding(
        f"Recompute less: {words.count(calls)} × {name} {program.per(facts)} runs forward twice",
        (
            Evidence("modules run again", calls, "", Query("modules", name)),
            Evidence("their GPU work, as recorded", facts.per_step(spent), "ns", Query("modules", name)),
            Evidence("their host time, as recorded", facts.per_step(float(intervals.length(own))), "ns"),
        ),
        f"without the second forward pass and what torch.utils.checkpoint does itself: {bound.why}",
        advice="Checkpoint no more layers than memory asks for (torch.utils.checkpoint, gradient_checkpointing): each"
        " one computes its forward pass again. Or let selective checkpointing keep what is dear to compute.",
    )


def _in_backward(host: pl.DataFrame, rows: Ints) -> Bools:
    """Which host rows run inside an operator of the backward pass."""
    backward: Bools = nearest(parents_of(host), row_ids(host["forward"]) >= 0, rows) >= 0
    return backward


def _checkpointing(facts: Facts) -> Intervals:
    """When functions of torch.utils.checkpoint run, apart from the modules that they run the first time."""
    host, start = facts.trace.host, facts.trace.host["start"].to_numpy()
    end = start + host["duration"].to_numpy()
    parent, is_module = parents_of(host), of_kinds(host["kind"], "module")
    functions = of_kinds(host["kind"], "python") & names.matching(host["name"], lambda name: _CHECKPOINT in name)
    rows = np.flatnonzero(functions)
    first = np.flatnonzero(is_module)
    first = first[(nearest(parent, functions, first) >= 0) & ~_in_backward(host, first)]
    within = rows[nearest(parent, is_module, rows) >= 0]
    around = intervals.subtract(intervals.union(start[rows], end[rows]), intervals.union(start[first], end[first]))
    return intervals.union(np.append(around[0], start[within]), np.append(around[1], end[within]))


_CHECKPOINT = "torch/utils/checkpoint.py("
