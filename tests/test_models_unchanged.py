"""What a real program computes anew in each step with the same result; needs torch."""

from __future__ import annotations

import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="operators are compared inside torch")

from tracetui.collectors.child import script, spare, unchanged, uses  # noqa: E402

WORDS = torch.randn(4, 8)
FROZEN, LEARNED = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)


def encoded() -> Any:
    with torch.no_grad():
        return FROZEN(WORDS).relu()


def scored(x: Any) -> Any:
    return x.softmax(-1)


def found(step: Any) -> list[dict[str, Any]]:
    optimizer = torch.optim.SGD(LEARNED.parameters(), 0.1)
    looked = unchanged.Unchanged()
    for _ in range(unchanged.STEPS):
        optimizer.zero_grad()
        step()
        optimizer.step()
        looked.step()
    looked.end()
    assert looked.problem is None
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    return looked.found()


def test_a_function_and_a_line_with_the_same_results_are_told_with_their_operators() -> None:
    def step() -> None:
        mask = torch.ones(8, 8).triu()
        buffer = torch.zeros(4, 8)  # is written into, so it must be new
        buffer += LEARNED(torch.randn(4, 8)) + encoded()
        scored(buffer @ mask).sum().backward()

    line, whole = sorted(found(step), key=lambda each: each["whole"])
    assert (whole["function"], whole["whole"]) == ("encoded", True)
    assert whole["operators"] == [
        {"name": "aten::addmm", "of": 2, "calls": [1]},
        {"name": "aten::relu", "of": 1, "calls": [0]},
    ]
    assert (line["function"], line["whole"], line["line"]) == ("step", False, step.__code__.co_firstlineno + 1)
    assert [of["name"] for of in line["operators"]] == ["aten::ones", "aten::triu"]
    assert line["file"].endswith("test_models_unchanged.py")


def test_what_a_step_computes_again_is_told_with_its_later_calls() -> None:
    def embed(words: torch.Tensor) -> torch.Tensor:
        return LEARNED(words).relu()

    def step() -> None:
        one, other = torch.randn(4, 8), torch.randn(4, 8)
        scored((embed(one) * embed(other) + embed(one)) @ torch.randn(8, 8)).sum().backward()

    (again,) = found(step)
    assert (again["function"], again["again"]) == ("embed", True)
    assert again["operators"] == [
        {"name": "aten::addmm", "of": 3, "calls": [2]},
        {"name": "aten::relu", "of": 3, "calls": [2]},
    ]


def test_the_same_input_again_says_nothing_of_the_program() -> None:
    assert found(lambda: scored(encoded() @ WORDS.T)) == []


def test_steps_of_another_number_of_operators_are_compared_place_by_place() -> None:
    number = iter(range(1, 9))

    def step() -> None:
        for _ in range(next(number)):
            scored(torch.randn(3, 3))
        encoded()

    assert [each["function"] for each in found(step)] == ["encoded"]


def test_what_another_order_of_the_same_numbers_yields_is_not_the_same() -> None:
    def step() -> None:
        encoded()
        order = torch.arange(64)[torch.randperm(64)]
        scored(LEARNED(torch.randn(64, 8))[order] * torch.randn(64, 8))

    assert [each["function"] for each in found(step)] == ["encoded"]


def test_inference_mode_that_begins_and_ends_in_each_step_hides_nothing() -> None:
    looked: list[unchanged.Unchanged] = []

    @torch.inference_mode()
    def step() -> None:
        scored(encoded() @ torch.randn(8, 8))
        if not looked:  # as a hook of a module does that is called there
            looked.append(unchanged.Unchanged())
            return
        looked[0].step()
        if len(looked[0]._steps) > unchanged.STEPS:
            looked[0].end()

    before = torch.inference_mode.__exit__
    for _ in range(unchanged.STEPS + 1):
        step()
    assert torch.zeros(3).add(1).sum() == 3
    with torch.inference_mode():
        torch.zeros(3)
    assert torch.inference_mode.__exit__ is before
    assert looked[0].problem is None
    assert [each["function"] for each in looked[0].found()] == ["encoded"]
    with torch.inference_mode():
        assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


def in_vain(step: Any, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], tuple[float, list[str], int | None]]:
    """By why and function of what a step uses in part: how much, the operators, and the line that decides it."""
    monkeypatch.setattr(uses, "LEAST_NUMBERS", 16)
    looked = unchanged.Unchanged()
    optimizer = torch.optim.SGD(LEARNED.parameters(), 0.1)
    for _ in range(unchanged.STEPS):
        step()
        optimizer.step()
        optimizer.zero_grad()
        looked.step()
    looked.end()
    assert (looked.problem, looked.uses.problem) == (None, None)
    first = step.__code__.co_firstlineno
    return {
        (each["why"], each["function"]): (
            each["used"],
            [of["name"].removeprefix("aten::") for of in each["operators"]],
            int(each["by"].rpartition(":")[2]) - first if each["by"] else None,
        )
        for each in looked.in_vain()
    }


X = torch.randn(16, 8)


def scores(x: Any) -> Any:
    return (LEARNED(x) * 2).relu()


def test_a_result_of_which_a_part_is_read_is_told_with_all_that_is_made_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def step() -> None:
        scores(X.view(4, 4, 8))[:, -1].sum().backward()
        torch.nn.utils.clip_grad_norm_(LEARNED.parameters(), 1.0)

    assert in_vain(step, monkeypatch) == {("read", "scores"): (0.25, ["addmm", "mul", "relu"], 1)}


def test_a_diagonal_and_a_row_of_an_index_are_parts_and_a_whole_row_is_needed_for_a_softmax(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def diagonal() -> None:
        x = LEARNED(X[:8])
        (x @ x.T).diagonal().sum().backward()

    def row() -> None:
        at = torch.tensor([3, 5])
        scores(X).softmax(-1)[at].sum().backward()

    def column() -> None:
        scores(X).softmax(-1)[:, 0].sum().backward()

    def last_of_a_recurrence() -> None:
        torch.cumsum(scores(X), 0)[-1].sum().backward()

    assert in_vain(diagonal, monkeypatch) == {("read", "diagonal"): (0.125, ["mm"], 2)}
    assert in_vain(row, monkeypatch)["read", "row"] == (0.125, ["addmm", "mul", "relu", "_softmax"], 2)

    def turned() -> None:
        x = scores(X)
        torch.cat((-x[:, 4:], x[:, :4]), -1).sum().backward()

    def down() -> None:
        scores(X).softmax(0)[:2].sum().backward()
        x = scores(X[:8])
        (x.sum(0)[:2] + torch.logsumexp(x, 0)[:2]).sum().backward()

    assert in_vain(column, monkeypatch) == {}
    assert in_vain(down, monkeypatch) == {}
    assert in_vain(turned, monkeypatch) == {}
    assert in_vain(last_of_a_recurrence, monkeypatch) == {}


def test_items_that_are_replaced_are_not_needed_through_what_works_item_by_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = (torch.arange(8) == 3)[:, None, None, None]
    world, kernel = torch.randn(8, 1, 8, 8), torch.randn(1, 1, 3, 3)

    def terrain() -> Any:
        made = torch.nn.functional.avg_pool2d(torch.randn(8, 1, 8, 8), 3, 1, 1)
        made = torch.where(made > 0.6, 0.5 * made, made)  # of few places, which is no matter: all of an item goes
        return torch.conv2d(made, kernel, padding=1) + made

    def step() -> None:
        world.copy_(torch.where(ended, terrain(), world))

    assert in_vain(step, monkeypatch) == {
        ("masked", "terrain"): (0.125, ["randn", "avg_pool2d", "gt", "mul", "where", "convolution", "add"], 1)
    }


def test_what_a_mask_or_a_weight_of_nought_hides_is_told_and_a_gate_that_learns_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = torch.zeros(8, requires_grad=True)
    keep = torch.arange(16)[:, None] % 8 == 0

    def masked() -> None:
        (scores(X) * keep).sum().backward()

    def zeroed() -> None:
        (LEARNED(X).sum() + 0.0 * scores(X).sum()).backward()

    def gated() -> None:
        (scores(X) * gate).sum().backward()

    assert in_vain(masked, monkeypatch)["masked", "scores"] == (0.125, ["addmm", "mul", "relu"], 1)
    assert in_vain(zeroed, monkeypatch)["zeroed", "zeroed"][:2] == (0.0, ["addmm", "mul", "relu", "sum"])
    assert in_vain(gated, monkeypatch) == {}


def test_rows_that_are_equal_are_told_and_different_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeated() -> None:
        scores(X[:4].repeat(4, 1)).sum().backward()

    assert in_vain(repeated, monkeypatch) == {
        ("alike", "repeated"): (0.25, ["repeat", "addmm", "mul", "relu"], None),
    }
    assert in_vain(lambda: scores(X).sum().backward(), monkeypatch) == {}


def test_numbers_that_are_copied_many_times_and_complex_ones_that_are_real_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    series = torch.randn(19)

    def windows() -> None:
        laid_out = series.unfold(0, 4, 1).contiguous()
        scores(laid_out.mul(2).repeat(1, 2)).sum().backward()

    def real() -> None:
        torch.fft.ifft(torch.fft.fft(LEARNED(X))).real.sum().backward()

    assert in_vain(windows, monkeypatch) == {("repeated", "windows"): (pytest.approx(19 / 64), ["clone", "mul"], 1)}
    assert in_vain(real, monkeypatch)["read", "real"][:2] == (0.5, ["_fft_c2c"])


def test_what_nobody_reads_is_told_unless_it_is_the_step_s_result_or_is_read_out_of_sight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unread() -> None:
        scores(X)
        LEARNED(X).sum().backward()

    def printed() -> None:
        with torch.no_grad():
            scores(X).tolist()
        LEARNED(X).sum().backward()

    def accumulated() -> Any:
        total = torch.zeros(())
        for part in X.split(8):
            loss = scores(part).square().mean()
            loss.backward()
            total = total + loss.detach()
        return total

    kept: list[Any] = []

    def collected() -> None:
        kept.append(scores(X))
        LEARNED(X).sum().backward()

    assert in_vain(unread, monkeypatch)["dropped", "scores"][:2] == (0.0, ["addmm", "mul", "relu"])
    assert in_vain(printed, monkeypatch) == {}

    def collected_and_read() -> None:
        kept.append(scores(X))
        kept[-1][:2].sum().backward()

    assert in_vain(collected, monkeypatch) == {}
    assert in_vain(collected_and_read, monkeypatch) == {}
    assert [operators for _, operators, _ in in_vain(accumulated, monkeypatch).values()] in ([], [["add"]])


def test_the_result_of_a_step_that_only_infers_is_not_dropped_and_a_copy_is_seen_there_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = torch.zeros(16)
    monkeypatch.setattr(uses, "LEAST_NUMBERS", 16)
    last = torch.zeros(8)
    steps = (lambda: scores(X), lambda: counted.add_((scores(X) == 0).int().sum(1)))
    for step in (*steps, lambda: last.copy_(scores(X).to(torch.float64)[-1])):
        with torch.inference_mode():
            looked = unchanged.Unchanged()
            for _ in range(unchanged.STEPS):
                step()
                looked.step()
            looked.end()
        operators = [each["operators"] for each in looked.in_vain()]
        names = ["aten::linear", "aten::mul", "aten::relu", "aten::_to_copy"]
        assert [[of["name"] for of in each] for each in operators] == ([] if step in steps else [names])


def test_a_program_that_is_compiled_is_left_alone() -> None:
    assert unchanged.is_eager()
    torch.compile(FROZEN, backend="eager")(WORDS)
    try:
        assert not unchanged.is_eager()
    finally:
        torch._dynamo.utils.counters.clear()


class Part(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.layer(x)


class Backbone(Part):
    pass


class Trained(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head = Backbone(), torch.nn.Linear(4, 2)
        self.first, self.second = Part(), Part()

    def forward(self, x: Any) -> Any:
        return self.head(self.second(self.first(self.backbone(x))))


def test_modules_with_gradients_that_no_optimizer_holds_are_told_by_a_class_that_is_theirs_alone() -> None:
    gc.collect()
    net = Trained()
    kept = torch.optim.SGD([*net.head.parameters(), *net.second.parameters()], 0.1)
    net(torch.randn(3, 4)).sum().backward()
    found = spare.unheld()
    assert found is not None
    assert "Backbone" in found["classes"]
    assert "Part" not in found["classes"], "one of them is trained"
    assert found["parameters"] >= 4
    assert found["bytes"] >= 2 * 20 * 4
    other = torch.optim.SGD([*net.backbone.parameters(), *net.first.parameters()], 0.1)
    assert "Backbone" not in (spare.unheld() or {"classes": ()})["classes"]
    del kept, other
    gc.collect()
    assert "Backbone" not in (spare.unheld() or {"classes": ()})["classes"], "the optimizer has its own copies"


class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(20, 6)

    def forward(self, x: Any, **others: Any) -> Any:
        return self.layer(x)


def sounds(*lengths: int, size: int = 60) -> Any:
    made = torch.zeros(len(lengths), size, 20)
    for row, length in zip(made, lengths, strict=True):
        row[:length] = torch.randn(length, 20)
    return made


def looked_at(step: Any) -> list[tuple[Any, ...]]:
    looked = spare.Spare()
    for _ in range(2):
        step()
    told = looked.end()
    assert torch.nn.Module.__call__.__name__ == "_wrapped_call_impl"
    return [(each["name"], each["dim"], round(each["percent"]), round(each["mean_percent"])) for each in told]


NET = Net()


def given(x: Any, **others: Any) -> Any:
    return lambda: NET(x, **others)


def labels(*counts: int, size: int = 40) -> Any:
    return torch.stack([torch.cat((torch.full((size - many,), -100), torch.arange(many) % 6)) for many in counts])


PICTURES = torch.nn.functional.pad(torch.randn(2, 3, 20, 20), (9, 9, 9, 9))


def loss(target: Any) -> Any:
    return lambda: torch.nn.CrossEntropyLoss()(torch.randn(target.numel(), 6), target.flatten())


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (given(sounds(12, 30)), [("x", 1, 50, 65)]),
        (given(sounds(12, 60)), [("x", 1, 0, 40)]),
        (given(sounds(12, 30).flip(1)), [("x", 1, 50, 65)]),
        (given(sounds(60, 57)), []),
        (given(sounds(12, 30), mask=(sounds(12, 30) != 0).any(2)), [("x", 1, 50, 65)]),
        (given(sounds(12, 30), ids=torch.arange(120).view(2, 60)), []),  # has content for each position
        (given(torch.randn(2, 60, 20), kinds=torch.zeros(2, 60)), []),  # all the same
        (given(torch.randn(2, 60, 20), seen=torch.ones(60, 60).tril()), []),
        (lambda: torch.nn.Conv2d(3, 4, 1)(PICTURES), []),
        (given(torch.nn.functional.pad(torch.randn(64, 12), (0, 8))), []),  # columns that have weights
        (loss(labels(5, 10)), [("target", None, 81, 81)]),
        (loss(labels(38, 40)), []),
    ],
)  # fmt: skip
def test_positions_that_carry_nothing_are_told_of_padding_and_of_no_other_tensor(step: Any, told: Any) -> None:
    assert looked_at(step) == told


def test_padding_is_told_with_the_line_that_gives_it_and_on_average_over_steps() -> None:
    lengths = iter((30, 42))

    def step() -> None:
        NET(sounds(6, next(lengths)))

    looked = spare.Spare()
    step()
    torch.nn.Sequential(NET)(sounds(20, 20))  # another place
    step()
    told = {each["function"]: each for each in looked.end()}
    assert round(told["step"]["percent"]) == 40
    assert (told["step"]["of"], told["step"]["shape"]) == ("Net", [2, 60, 20])
    assert told["step"]["line"] == step.__code__.co_firstlineno + 1
    assert set(told) == {"step", "test_padding_is_told_with_the_line_that_gives_it_and_on_average_over_steps"}


class Broken(torch.nn.Module):
    """Reads a value in its forward pass: a compiled graph breaks there."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        return self.second(x) if float(x.abs().mean()) < 1e6 else x


def test_what_watches_modules_is_not_compiled_itself() -> None:
    watch = script.Watch(lambda _: None)
    try:
        compiled = torch.compile(torch.nn.Sequential(Broken(), Broken()), backend="eager", dynamic=False)
        with torch.no_grad():  # torch warns of gradients where it goes on after a break
            compiled(WORDS)
        entries = torch._C._dynamo.eval_frame._debug_get_cache_entry_list
        assert entries(Broken.forward.__code__)
        assert not entries(watch._watching.__code__)
    finally:
        watch.stop()
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
