"""What a program computes in vain: of an operator's result a part is read, or masked, or its rows are equal.

Each result of the program's own operators is followed to those that read it, by its storage and what of it they see.
Work by element and by row hands on what of its own result is used. Whatever is not known counts as used.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import Any, Iterator

from .hand import replace

MOSTLY_USED = 0.5
"""What is used to this part or more is not told."""
LEAST_NUMBERS = 4096
"""Smaller results are not looked into."""
MOST_ROWS = 1 << 20
HIDDEN = -1e4
"""A score that has this added to it is masked."""
_BY_ROW = frozenset(
    "aten::" + name
    for name in ("mm", "addmm", "linear", "native_layer_norm", "_fused_rms_norm", "_softmax", "_log_softmax")
)
"""Operators that make each row of their result from one row of what they are given."""
_AS_A_WHOLE = re.compile(
    r"^(?!aten::)|sort|topk|kthvalue|median|mode|cum(sum|prod|max|min)|rnn|lstm|gru|linalg_(?!vector)|unique|nonzero"
    r"|scatter|index_(put|add|copy|reduce)|bincount|hist|multinomial|pool|randperm|^aten::(new_)?(empty|zeros"
    r"|ones|full)|(fill|zero)_$"
)
"""Operators that take as much work for a part of their result, or of which that is not known, and new space."""
_WHOLE_ROWS = frozenset(
    "aten::" + name for name in ("native_layer_norm", "_fused_rms_norm", "_softmax", "_log_softmax")
)
"""Of these a part of a row takes the whole row."""
_COPIES = frozenset(
    "aten::" + name
    for name in ("_to_copy", "clone", "copy_", "native_dropout", "to", "contiguous", "reshape", "flatten")
)
"""Work by element that torch does not call so."""
_PICKS = frozenset(
    "aten::" + name for name in ("index", "index_select", "gather", "embedding", "take", "masked_select")
)
"""Operators that read of what they pick from no more than they yield."""
_OVERWRITES = frozenset(("aten::copy_", "aten::fill_", "aten::zero_"))
_HEAVY = {
    "aten::mm": 0, "aten::addmm": 1, "aten::linear": 0, "aten::convolution": 0, "aten::cudnn_convolution": 0,
    "aten::native_layer_norm": 0, "aten::_cudnn_rnn": 0,
}  # fmt: skip
"""Operators whose rows are compared, and which argument has them."""
_BY_ROWS_OF_FIRST = frozenset(("aten::convolution", "aten::cudnn_convolution"))
"""Rows are all that is under one index of the first dimension; of the others what is in the last one."""
_OUT_OF_SIGHT = ("data_ptr", "numpy", "tolist", "__array__", "__dlpack__")
"""Ways to read a tensor that no operator takes: of a kernel of the program's own, and of other libraries."""


class _Result:
    """One tensor that an operator has made, and who has read what of it."""

    __slots__ = ("backward", "hidden", "of", "reads", "row", "size", "weak")

    def __init__(self, of: int, size: int, row: int, weak: Any) -> None:
        self.of, self.size, self.row, self.weak = of, size, row, weak
        self.reads: dict[Any, tuple[int, bool, int, Any]] = {}
        """By what is seen: how many numbers, whether whole rows, the operator that reads, and its mask's used part."""
        self.backward = self.hidden = False


class _Call:
    """One operator of the program, in the order of calls."""

    def __init__(self, step: int, place: int, frames: Any, name: str, *, pointwise: bool, learns: bool) -> None:
        self.step, self.place, self.frames, self.name, self.learns = step, place, frames, name, learns
        self.hands_on = "each" if pointwise or name in _COPIES else "rows" if name in _BY_ROW else ""
        self.by_part = not _AS_A_WHOLE.search(name)
        self.whole_rows = name in _WHOLE_ROWS
        self.results: list[_Result] = []
        self.size = 0
        self.alike: tuple[int, int] | None = None
        """Its rows, and how many of them differ."""
        self.repeats: tuple[float, int] | None = None
        """What part of its numbers differ, and the call that copied them."""


class Used:
    """What of one operator's result is used, and by whom that is decided."""

    __slots__ = ("by", "rows", "share", "why")

    def __init__(self, share: float, why: str = "", by: int = -1, *, rows: bool = True) -> None:
        self.share, self.why, self.by, self.rows = share, why, by, rows


class Uses:
    """Follows the results of some steps of one thread."""

    def __init__(self) -> None:
        """Begins to follow."""
        import torch
        from torch.multiprocessing.reductions import StorageWeakRef

        self.problem: str | None = None
        self._torch, self._weak = torch, StorageWeakRef
        self._calls: list[_Call] = []
        self._live: dict[int, _Result] = {}
        self._step = 0
        self._ends: list[int] = []
        """How many calls there were at the end of each step."""
        self._sinks: list[int] = []
        """How many calls there were when something went where it stays."""
        self._carried: set[int] = set()
        """The steps of which a later one has read a result."""
        self._sees_backward = False
        self._undo = [
            replace(torch.Tensor, name, self._read_out_of_sight)
            for name in _OUT_OF_SIGHT
            if callable(getattr(torch.Tensor, name, None))
        ]

    def step(self) -> None:
        """A step has ended."""
        self._step += 1
        self._ends.append(len(self._calls))

    def end(self) -> None:
        """Follows no more."""
        while self._undo:
            self._undo.pop()()

    def saw(self, func: Any, given: Any, result: Any, place: int | None, frames: Any) -> None:
        """An operator was called.

        Args:
            func: torch's.
            given: its arguments, and those by name.
            result: what it has yielded.
            place: which of the step's operators it is; None where only its reading counts, as of a backward pass.
            frames: the program's functions that led to it.
        """
        if self.problem is not None:
            return
        try:
            self._saw(func, list(_tensors(given)), given[0], result, place, frames)
        except Exception as error:  # whatever happens, the program goes on
            self.problem = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"

    def _saw(self, func: Any, tensors: Any, given: Any, result: Any, place: int | None, frames: Any) -> None:
        name, torch = func._schema.name, self._torch
        writes = _written(func, given)
        keys = {id(each): _key(each) for each in tensors}
        results = [each for each in _tensors(result) if _key(each) not in keys.values()]
        if not results and not writes and place is not None and list(_tensors(result)):
            return  # it looks at what is there
        backward = place is None
        pointwise = torch.Tag.pointwise in func.tags
        call = _Call(
            self._step, -1 if place is None else place, frames, name,
            pointwise=pointwise, learns=torch.is_grad_enabled(),
        )  # fmt: skip
        number = -1 if backward else len(self._calls)
        yields = max((each.numel() for each in (*results, *writes)), default=0)
        masks = {} if backward else self._masks(name.rstrip("_").rpartition("::")[2], given, yields)
        for each in tensors:
            made = self._live.get(keys[id(each)])
            if made is None or (name in _OVERWRITES and any(each is one for one in writes)):
                continue
            if backward:
                made.backward = self._sees_backward = True
                continue
            if self._calls[made.of].step < self._step:
                self._carried.add(self._calls[made.of].step)
            seen, key, rows = _seen(each, made.row)
            if name in _PICKS and each is given[0]:
                rows = rows and bool(results) and results[0].shape[-1:] == each.shape[-1:] and name != "aten::gather"
                seen, key = min(seen, yields * each.element_size()), number
            # of what a smaller operand adds to a larger result, all is used
            hands_on = bool(call.hands_on) and (each.numel() == yields if call.hands_on == "each" else True)
            if call.hands_on == "rows" and each is not _first(name, given):
                hands_on = False
            made.reads[key, number if hands_on else -1] = (seen, rows, number, (hands_on, masks.get(id(each))))
        if backward:
            return
        for each in writes:
            made = self._live.get(keys[id(each)])
            if made is None:
                self._sinks.append(number)
            if _bytes(each) == (each.untyped_storage().nbytes() if made is None else made.size) and (
                made is not None or name in _OVERWRITES
            ):
                results.append(each)
        if name == "aten::_local_scalar_dense" or any(
            each.device.type == "cpu" and any(one.device.type != "cpu" for one in tensors) for each in results
        ):
            self._sinks.append(number)
        if call.hands_on == "each" and yields >= LEAST_NUMBERS:
            call.repeats = self._repeats(name, [each for each in tensors if each.numel() == yields], number)
        self._calls.append(call)
        for each in results:
            row = each.shape[-1] if each.dim() else 1
            self._live[_key(each)] = made = _Result(number, _bytes(each), row, self._weak(each.untyped_storage()))
            call.results.append(made)
            call.size += each.numel()
        if name in _HEAVY and yields >= LEAST_NUMBERS:
            call.alike = self._alike(name, given[_HEAVY[name]])

    def _masks(self, kind: str, given: Any, yields: int) -> dict[int, Any]:
        """By the operand that is masked: what of it stays, as a tensor, or None if it is multiplied by the number 0."""
        if not given:
            return {}
        one, *more = given
        other = (more or given)[0]
        if kind == "mul" and isinstance(other, (int, float)):
            return {id(one): (None, True)} if other == 0 else {}
        if yields < LEAST_NUMBERS or not _is_plain(one) or not _is_plain(other):
            return {}
        if kind == "where" and len(more) == 2:
            stays, rows = _part(one), _by_row(one)
            return {id(more[0]): (stays, rows), id(more[1]): (1 - stays, rows)}
        if kind == "masked_fill":
            return {id(one): (1 - _part(other), _by_row(other))}
        large, mask = (one, other) if one.numel() >= other.numel() else (other, one)
        if mask.requires_grad or (mask.numel() == large.numel() and mask.is_floating_point()):
            return {}  # a gate, which learns from what it closes
        if kind in ("mul", "bitwise_and", "logical_and"):
            return {id(large): (_part(mask), _by_row(mask))}
        if kind != "add" or not mask.is_floating_point():
            return {}
        return {id(large): (_part(mask > HIDDEN), _by_row(mask))}

    def _repeats(self, name: str, large: list[Any], number: int) -> tuple[float, int] | None:
        """What part of what is copied, or of what an operator by element is given, differs; and who copied it."""
        if name in _OVERWRITES:
            large = large[1:]
        if len(large) != 1:
            return None
        (one,) = large
        made = self._live.get(_key(one))
        before = None if made is None else self._calls[made.of].repeats
        if before is not None or name not in _COPIES:
            return before
        differ = reach = 1
        for stride, size in sorted((stride, size) for stride, size in zip(one.stride(), one.shape) if stride):
            differ = differ * size if stride >= reach else min(differ * size, reach + (size - 1) * stride)
            reach += (size - 1) * stride
        part = differ / one.numel()
        return (part, number) if part <= MOSTLY_USED else None

    def _alike(self, name: str, rows: Any) -> tuple[int, int] | None:
        """How many rows there are, and how many of them differ."""
        if not _is_plain(rows) or not rows.is_floating_point():
            return None
        torch = self._torch
        number = rows.shape[0] if name in _BY_ROWS_OF_FIRST else rows.numel() // max(rows.shape[-1], 1)
        if not 2 <= number <= MOST_ROWS:
            return None
        bits = rows.detach().reshape(number, -1)
        whole = bits.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[bits.element_size()])
        told = whole.sum(1, dtype=torch.int64)
        for at in range(0, whole.shape[1], max(1, whole.shape[1] // 8)):
            told = told * 1_000_003 + whole[:, at]
        return number, int(torch.unique(told).numel())

    def _read_out_of_sight(self, original: Any, args: Any, named: Any) -> Any:
        made = self._live.get(_key(args[0])) if args and self.problem is None else None
        if made is not None:
            made.hidden = True
        return original(*args, **named)

    def found(self) -> list[tuple[_Call, Used, _Call | None]]:
        """Of the step with most of them: calls in vain in part, what of each is used, and the call that decides it."""
        steps = range(len(self._ends) - 1)  # what the last one has made may still be read
        if self.problem is not None or not steps:
            return []
        learns = any(call.learns for call in self._calls)
        used: list[Used] = [Used(1.0)] * len(self._calls)
        for number in reversed(range(len(self._calls))):
            used[number] = self._used(number, used, sees_all=self._sees_backward or not learns)
        for number, call in enumerate(self._calls):
            if used[number].share > MOSTLY_USED and call.alike is not None:
                used[number] = Used(call.alike[1] / call.alike[0], "alike")
            elif used[number].share > MOSTLY_USED and call.repeats is not None:
                used[number] = Used(call.repeats[0], "repeated", call.repeats[1])
        parts: dict[Any, list[list[float]]] = {}  # by call of the program and step
        for call, what in zip(self._calls, used):
            if what.share < 1.0 and call.step in steps:
                parts.setdefault((call.frames, call.name, what.why), [[] for _ in steps])[call.step].append(what.share)
        most = Counter(call.step for call, what in zip(self._calls, used) if what.share < 1.0 and call.step in steps)
        found = []
        for call, what in zip(self._calls, used):
            by_step = parts.get((call.frames, call.name, what.why))
            if by_step is None or call.step != most.most_common(1)[0][0] or call.place < 0 or not call.frames:
                continue
            part = sum(sum(each) / len(each) if each else 1.0 for each in by_step) / len(by_step)
            if part <= MOSTLY_USED:
                found.append((call, Used(part, what.why), self._calls[what.by] if what.by >= 0 else None))
        return found

    def _used(self, number: int, used: list[Used], *, sees_all: bool) -> Used:
        """What of a call's results is used, of the one of which most is."""
        call = self._calls[number]
        if not call.results:  # it writes into what stays
            return Used(1.0)
        most = Used(0.0, "dropped", number)
        unread = []
        for made in call.results:
            if made.hidden:
                return Used(1.0)
            if not made.reads:
                unread.append(made)
                continue
            share, rows, largest = 0.0, True, Used(0.0)
            for seen, by_rows, reader, (hands_on, mask) in made.reads.values():
                each = Used(min(seen / max(made.size, 1), 1.0), "read", reader, rows=by_rows)
                if each.share == 1.0:
                    each.why = ""
                if mask is not None and mask[0] is None:
                    each = Used(0.0, "zeroed", reader)
                elif mask is not None and float(mask[0]) < 1.0:
                    each = Used(each.share * float(mask[0]), "masked", reader, rows=each.rows and mask[1])
                later = used[reader] if reader >= 0 else Used(1.0)
                if not later.share:
                    each = Used(0.0, later.why, later.by)
                elif hands_on and later.share < each.share and (self._calls[reader].hands_on == "each" or later.rows):
                    each = Used(later.share, later.why, later.by, rows=later.rows)
                share += each.share
                rows &= each.rows
                largest = each if each.share >= largest.share else largest
            if share >= most.share:
                most = Used(min(share, 1.0), largest.why, largest.by, rows=rows)
        if len(unread) == len(call.results) and not self._is_dropped(call, number, sees_all=sees_all):
            return Used(1.0)
        if most.share and (call.whole_rows > most.rows or not call.by_part or call.size < LEAST_NUMBERS):
            return Used(1.0)
        return most

    def _is_dropped(self, call: _Call, number: int, *, sees_all: bool) -> bool:
        """Whether nobody has read the results, though something that stays comes after them or from their step."""
        end = self._ends[call.step] if call.step < len(self._ends) else 0
        return (
            sees_all
            and all(made.weak.expired() and not made.backward for made in call.results)
            and (call.step in self._carried or any(number < sink < end for sink in self._sinks))
        )


def _tensors(value: Any) -> Iterator[Any]:
    if _is_plain(value):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)


def _is_plain(value: Any) -> bool:
    torch = sys.modules["torch"]
    return isinstance(value, torch.Tensor) and bool(value.layout is torch.strided and value.device.type != "meta")


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _key(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _written(func: Any, given: Any) -> list[Any]:
    """The tensors that an operator writes into."""
    found: list[Any] = []
    for argument, value in zip(func._schema.arguments, given):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += _tensors(value)
    return found


def _seen(tensor: Any, row: int) -> tuple[int, Any, bool]:
    """How many bytes of its storage a tensor shows, what tells these from others, and whether they are whole rows.

    Of the real part of complex numbers these are half of the bytes.
    """
    sides = [(size, stride) for size, stride in zip(tensor.shape, tensor.stride()) if size != 1 and stride]
    number = tensor.element_size()
    for size, _ in sides:
        number *= size
    offset = tensor.storage_offset()
    whole = row == 1 or (any(stride == 1 and size % row == 0 for size, stride in sides) and offset % row == 0)
    return number, (offset, tuple(sorted(sides))), whole


def _first(name: str, given: Any) -> Any:
    return given[_HEAVY.get(name, 0)]


def _part(mask: Any) -> Any:
    """What part of a mask is not 0, as a tensor."""
    return mask.count_nonzero() / max(mask.numel(), 1)


def _by_row(mask: Any) -> bool:
    """Whether it hides whole rows of what it is broadcast to."""
    return bool(mask.dim() > 0 and mask.shape[-1] == 1)
