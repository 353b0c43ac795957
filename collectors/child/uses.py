"""What a program computes in vain: of an operator's result a part is read, or masked, or its rows are equal.

Each result of the program's own operators is followed to those that read it, by its storage and what of it they see.
Work by element and by row hands on what of its own result is used. Whatever is not known counts as used.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from math import gcd
from typing import Any, Iterator

from .hand import replace

MOSTLY_USED = 0.5
"""What is used to this part or more is not told."""
LEAST_NUMBERS = 4096
"""Smaller results are not looked into."""
MOST_ROWS = 1 << 20
HIDDEN = -1e4
"""A score that has this added to it is masked."""
_BY_ROW = re.compile(
    r"^aten::(mm|addmm|linear|native_layer_norm|layer_norm|_fused_rms_norm|rms_norm|_?(log_)?softmax)$"
)
"""Operators that make each row of their result from one row of what they are given."""
_BY_ITEM = re.compile(
    r"^aten::\w*(conv|pool|upsample|pad|grid_sampler|group_norm|scaled_dot_product|bmm|gather|logsumexp|norm|sum|mean|amax"
    r"|amin)"
)
"""Operators that make what is under one index of the first dimension from what they are given under the same one."""
_MIXES_ITEMS = re.compile(r"batch_norm|cum|foreach")
_ALONG = re.compile(r"softmax|logsumexp|norm|sum|mean|amax|amin|gather")
"""Operators that are told along which dimensions they go, as a number or a list of them."""
_OF_ALL_ARGUMENTS = re.compile(r"scaled_dot_product|bmm|gather")
_AS_A_WHOLE = re.compile(
    r"^(?!aten::)|sort|topk|kthvalue|median|mode|cum(sum|prod|max|min)|rnn|lstm|gru|linalg_(?!vector)|unique|nonzero"
    r"|(batch|group)_norm"
    r"|scatter|index_(put|add|copy|reduce)|bincount|hist|multinomial|randperm|^aten::(new_)?(empty|zeros"
    r"|ones|full)|(fill|zero)_$"
)
"""Operators that take as much work for a part of their result, or of which that is not known, and new space."""
_WHOLE_ROWS = re.compile(r"norm|softmax")
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
    "aten::native_layer_norm": 0,
}  # fmt: skip
"""Operators whose rows are compared, and which argument has them."""
_BY_FIRST = frozenset(("aten::convolution", "aten::cudnn_convolution"))
"""Rows are all that is under one index of the first dimension; of the others what is in the last one."""
_OUT_OF_SIGHT = ("data_ptr", "numpy", "tolist", "__array__", "__dlpack__")
"""Ways to read a tensor that no operator takes: of a kernel of the program's own, and of other libraries."""


class _Read:
    """Who has read what of a result.

    Attributes:
        seen: how many bytes.
        unit: of how many numbers in a row these are, at least.
        reader: its number.
        sizes: of one row, item or number of what it yields, and of what it was given for that; None where a part of
            what it yields takes all.
        mask: what part of it stays, as a tensor (None if it is multiplied by the number 0), and by which unit.
    """

    def __init__(self, seen: int, unit: int, reader: int, sizes: tuple[int, int] | None, mask: Any) -> None:
        self.seen, self.unit, self.reader, self.sizes, self.mask = seen, unit, reader, sizes, mask


class _Result:
    """One tensor that an operator has made, and who has read what of it, by what they see."""

    def __init__(self, of: int, tensor: Any, weak: Any) -> None:
        self.of, self.size, self.weak = of, _bytes(tensor), weak
        self.numbers, self.row = tensor.numel(), tensor.shape[-1] if tensor.dim() else 1
        self.reads: dict[Any, _Read] = {}
        self.backward = self.hidden = False


class _Call:
    """One operator of the program, in the order of calls."""

    def __init__(self, step: int, place: int, frames: Any, name: str, *, pointwise: bool, learns: bool) -> None:
        self.step, self.place, self.frames, self.name, self.learns = step, place, frames, name, learns
        self.pointwise = pointwise or name in _COPIES
        self.as_a_whole = bool(_AS_A_WHOLE.search(name))
        self.results: list[_Result] = []
        self.copy_of: _Result | None = None
        self.equal: float | None = None
        """What part of the rows of its result differ, if half of them or less."""
        self.repeats: tuple[float, int] | None = None
        """What part of its numbers differ, and the call that copied them."""

    def sizes(self, tensor: Any, given: Any, result: Any) -> tuple[int, int] | None:
        """How much of what it is given a part of its result takes, see `_Read`."""
        if result is None:
            return None
        if self.pointwise:  # of what a smaller operand adds to a larger result, all is used
            return (1, 1) if tensor.numel() == result.numel() else None
        is_first = any(tensor is each for each in given[: 3 if _OF_ALL_ARGUMENTS.search(self.name) else 1])
        along = _along(given) if _ALONG.search(self.name) and _is_plain(given[0]) else set()
        if _BY_ROW.match(self.name):
            if "softmax" in self.name and along != {tensor.dim() - 1}:
                self.as_a_whole = True
                return None
            is_rows = tensor is given[_HEAVY.get(self.name, 0)]
            return (result.shape[-1], tensor.shape[-1]) if is_rows and result.dim() and tensor.dim() else None
        if not is_first or not _BY_ITEM.match(self.name) or _MIXES_ITEMS.search(self.name):
            return None
        items = tensor.shape[0] if tensor.dim() else 0
        if 0 in along or not items or not result.dim() or result.shape[0] != items:
            return None
        return result.numel() // items, tensor.numel() // items


class Used:
    """What of one operator's result is used, in units of so many numbers, and by whom that is decided."""

    def __init__(self, share: float, why: str = "", by: int = -1, unit: int = 0) -> None:
        self.share, self.why, self.by, self.unit = share, why, by, unit


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
            seen, key, unit = _seen(each)
            if name in _PICKS and each is given[0]:
                unit = _unit_picked(name, each, results[0] if results else None)
                seen, key = min(seen, yields * each.element_size()), number
            sizes = call.sizes(each, given, max((*results, *writes), key=lambda one: one.numel(), default=None))
            mask = masks.get(id(each))
            made.reads[key, -1 if sizes is None and mask is None else number] = _Read(seen, unit, number, sizes, mask)
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
        if yields >= LEAST_NUMBERS:
            large = [each for each in tensors if each.numel() == yields]
            if call.pointwise:
                call.repeats = self._repeats(name, large, number)
                call.copy_of = self._live.get(_key(large[-1])) if name in _COPIES and large else None
            if name in _HEAVY:
                call.equal = self._differing(name, given[_HEAVY[name]])
                self._makers_of_equal(given[_HEAVY[name]], call.equal)
            elif call.pointwise or name == "aten::cat":
                call.equal = self._equal(tensors if name == "aten::cat" else large)
        self._calls.append(call)
        for each in results:
            self._live[_key(each)] = made = _Result(number, each, self._weak(each.untyped_storage()))
            call.results.append(made)

    def _masks(self, kind: str, given: Any, yields: int) -> dict[int, Any]:
        """By the operand that is masked: what of it stays, as a tensor, or None if it is multiplied by the number 0."""
        if not given:
            return {}
        one, *more = given
        other = (more or given)[0]
        if kind == "mul" and isinstance(other, (int, float)):
            return {id(one): (None, 1)} if other == 0 else {}
        if yields < LEAST_NUMBERS or not _is_plain(one) or not _is_plain(other):
            return {}
        if kind == "where" and len(more) == 2:
            stays = _part(one)
            return {
                id(each): (left, _unit_of_mask(one, each))
                for each, left in zip(more, (stays, 1 - stays))
                if _is_plain(each)
            }
        if kind == "masked_fill":
            return {id(one): (1 - _part(other), _unit_of_mask(other, one))}
        large, mask = (one, other) if one.numel() >= other.numel() else (other, one)
        if mask.requires_grad or (mask.numel() == large.numel() and mask.is_floating_point()):
            return {}  # a gate, which learns from what it closes
        if kind in ("mul", "bitwise_and", "logical_and"):
            return {id(large): (_part(mask), _unit_of_mask(mask, large))}
        if kind != "add" or not mask.is_floating_point():
            return {}
        return {id(large): (_part(mask > HIDDEN), _unit_of_mask(mask, large))}

    def _makers_of_equal(self, tensor: Any, part: float | None) -> None:
        """Notes that the rows of a tensor are equal for what made it, and for what that is a copy of."""
        made = self._live.get(_key(tensor)) if _is_plain(tensor) else None
        while part is not None and made is not None:
            maker = self._calls[made.of]
            maker.equal = part if maker.equal is None else max(part, maker.equal)
            made = maker.copy_of

    def _equal(self, tensors: list[Any]) -> float | None:
        """What part of the rows of these differ, as far as what made them had equal ones."""
        made = [self._live.get(_key(each)) for each in tensors]
        parts = [None if each is None else self._calls[each.of].equal for each in made]
        return None if not parts or None in parts else max(part for part in parts if part is not None)

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

    def _differing(self, name: str, rows: Any) -> float | None:
        """What part of the rows differ, if half of them or less."""
        if not _is_plain(rows) or not rows.is_floating_point():
            return None
        torch = self._torch
        number = rows.shape[0] if name in _BY_FIRST else rows.numel() // max(rows.shape[-1], 1)
        if not 2 <= number <= MOST_ROWS:
            return None
        bits = rows.detach().reshape(number, -1)
        whole = bits.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[bits.element_size()])
        told = whole.sum(1, dtype=torch.int64)
        for at in range(0, whole.shape[1], max(1, whole.shape[1] // 8)):
            told = told * 1_000_003 + whole[:, at]
        part = int(torch.unique(told).numel()) / number
        return part if part <= MOSTLY_USED else None

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
            if used[number].share > MOSTLY_USED and call.equal is not None:
                used[number] = Used(call.equal, "alike")
            elif used[number].share > MOSTLY_USED and call.repeats is not None:
                used[number] = Used(call.repeats[0], "repeated", call.repeats[1])
        parts: dict[Any, list[list[float]]] = {}  # by call of the program and step
        for call, what in zip(self._calls, used):
            if what.share < 1.0 and call.step in steps:
                parts.setdefault((call.frames, call.name, what.why), [[] for _ in steps])[call.step].append(what.share)
        counts = Counter(call.step for call, what in zip(self._calls, used) if what.share < 1.0 and call.step in steps)
        most = max(counts, key=lambda step: counts[step], default=0)
        found = []
        for call, what in zip(self._calls, used):
            by_step = parts.get((call.frames, call.name, what.why))
            if by_step is None or call.step != most or call.place < 0 or not call.frames:
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
        most, whole_rows = Used(0.0, "dropped", number), True
        unread = []
        for made in call.results:
            if made.hidden or (made.reads and not made.weak.expired()):  # the rest may be read later
                return Used(1.0)
            if not made.reads:
                unread.append(made)
                continue
            shares: dict[Any, float] = {}  # what goes to one place two ways is the same part
            unit, largest = 0, Used(0.0)
            for seen, read in made.reads.items():
                each = self._read(read, made, used)
                way = seen if each.by == read.reader else each.by
                shares[way], unit = max(each.share, shares.get(way, 0.0)), gcd(unit, each.unit)
                largest = each if each.share >= largest.share else largest
            share = sum(shares.values())
            if made.backward and not share and largest.why == "dropped":  # a loss that nobody prints, and its like
                return Used(1.0)
            if share >= most.share:
                most = Used(min(share, 1.0), largest.why, largest.by, unit)
                whole_rows = unit % max(made.row, 1) == 0
        if len(unread) == len(call.results) and not self._is_dropped(call, number, sees_all=sees_all):
            return Used(1.0)
        is_known = not call.as_a_whole and (whole_rows or not _WHOLE_ROWS.search(call.name))
        if most.share and (not is_known or sum(made.numbers for made in call.results) < LEAST_NUMBERS):
            return Used(1.0)
        return most

    def _read(self, read: _Read, made: _Result, used: list[Used]) -> Used:
        """What one reader uses of a result."""
        share = min(read.seen / max(made.size, 1), 1.0)
        each = Used(share, "read" if share < 1.0 else "", read.reader, read.unit)
        if read.mask is not None:
            stays, unit = read.mask
            if stays is None:
                return Used(0.0, "zeroed", read.reader)
            if float(stays) < 1.0:
                each = Used(share * float(stays), "masked", read.reader, gcd(unit, read.unit))
        later = used[read.reader] if read.reader >= 0 else Used(1.0)
        if not later.share:
            return Used(0.0, later.why, later.by)
        if read.sizes is not None and read.sizes[0] and later.unit % read.sizes[0] == 0:
            unit = later.unit // read.sizes[0] * read.sizes[1]
            # both hold; whole items are handed on further
            if later.share < each.share or (unit > each.unit and later.share <= MOSTLY_USED / 2):
                return Used(later.share, later.why, later.by, unit)
        return each

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


def _along(given: Any) -> set[int]:
    """The dimensions, counted from the front, that an operator's arguments name."""
    told = [each for value in given[1:] for each in (value if isinstance(value, (tuple, list)) else (value,))]
    return {each % given[0].dim() for each in told if type(each) is int and given[0].dim()}


def is_new(result: Any, given: Any) -> bool:
    """Whether a tensor has memory that none of an operator's arguments has."""
    return _is_plain(result) and _key(result) not in {_key(each) for each in _tensors(given)}


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


def _seen(tensor: Any) -> tuple[int, Any, int]:
    """How many bytes of its storage a tensor shows, what tells these from others, and how many numbers lie in a row.

    Of the real part of complex numbers these are half of the bytes.
    """
    sides = sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride()) if size != 1 and stride)
    number, unit = tensor.element_size(), 1
    for stride, size in sides:
        number *= size
        unit *= size if stride == unit else 1
    offset = tensor.storage_offset()
    return number, (offset, tuple(sides)), gcd(unit, offset)


def _unit_picked(name: str, tensor: Any, result: Any) -> int:
    """How many numbers in a row each index picks of a tensor, at least."""
    if result is None or name == "aten::gather" or not tensor.dim():
        return 1
    size = 1
    for one, other in zip(reversed(tensor.shape[1:]), reversed(result.shape)):
        if one != other:
            break
        size *= one
    return size


def _unit_of_mask(mask: Any, large: Any) -> int:
    """How many numbers in a row of what a mask is broadcast to share one of its values."""
    size = 1
    for one, other in zip(reversed(mask.shape), reversed(large.shape)):
        if one != 1:
            break
        size *= other
    return size


def _part(mask: Any) -> Any:
    """What part of a mask is not 0, as a tensor."""
    return mask.count_nonzero() / max(mask.numel(), 1)
