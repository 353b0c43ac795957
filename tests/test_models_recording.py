"""A program that records itself, and trainers that are given a callback."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tracetui.parsers import open_path

torch = pytest.importorskip("torch")

PAGE = Path(__file__).resolve().parents[1] / "docs" / "ci.md"


def told(run: Path) -> dict:
    return json.loads((run / "run.json").read_text())


def test_the_pages_example_records_what_profile_would(tmp_path: Path) -> None:
    example = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert re.search(rf"tracetui: recorded; a step .* ms: tracetui {tmp_path / 'run'}\n", done.stderr)
    run = told(tmp_path / "run")
    assert run["status"] == "finished"
    assert run["measurement"]["step_of"] == "recording.step()"
    assert len(run["measurement"]["clean_step_ns"]) == 5
    trace = open_path(tmp_path / "run", cache=False).main
    assert trace.steps.height == 3
    assert "Linear" in " ".join(trace.host.filter(trace.host["kind"] == "module")["name"].cast(str).to_list())


def test_the_pages_marked_test_is_held_to_its_limits_and_its_baseline(tmp_path: Path) -> None:
    example = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[2]

    def session(text: str, *options: str) -> str:
        (tmp_path / "test_example.py").write_text(text)
        plugin = ["-p", "no:tracetui", "-p", "tracetui.app.pytest_plugin"]  # it may be installed, or not yet
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *options]
        return subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True).stdout

    assert "--tracetui-update makes it" in session(example)
    assert "1 passed" in session(example, "--tracetui-update")
    (stored,) = (tmp_path / ".tracetui" / "baselines").iterdir()
    assert told(stored)["status"] == "finished"
    said = session(example.replace("5e6", "1e-3"))
    assert "overview.step.us is " in said
    assert "its limit 0.001" in said
    assert "what changed from A to B" in said


def test_a_program_that_fails_in_between_keeps_what_there_is(tmp_path: Path) -> None:
    from tracetui.collectors.child.recording import recording

    def fails() -> None:
        with recording(tmp_path / "run", steps=2, warmup=1, clean_steps=3) as record:
            for number in range(9):
                torch.ones(4).sum()
                record.step()
                if number == 4:
                    raise KeyError("theirs")

    with pytest.raises(KeyError):
        fails()
    run = told(tmp_path / "run")
    assert (run["status"], run["outcome"]["explanation"]) == ("failed", "KeyError")
    assert run["outcome"]["skipped"] == [
        "the program ended early, after 5 steps: 2 of 3 steps were timed without a profiler"
    ]
    assert open_path(tmp_path / "run", cache=False).main.steps.height == 2


@pytest.mark.parametrize(
    ("package", "base", "kind", "begin", "step", "end"),
    [
        ("lightning.pytorch", "Callback", "lightning_callback", "on_train_start", "on_train_batch_end", "on_train_end"),
        ("transformers", "TrainerCallback", "huggingface_callback", "on_train_begin", "on_step_end", "on_train_end"),
    ],
)
def test_a_trainers_callback_records(tmp_path, monkeypatch, package, base, kind, begin, step, end) -> None:
    from tracetui.collectors.child import trainers

    for name in (package.split(".")[0], package):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    setattr(sys.modules[package], base, type(base, (), {}))
    callback = getattr(trainers, kind)(str(tmp_path / "run"), steps=2, warmup=1, clean_steps=3)
    getattr(callback, begin)(None, None, None)
    for _ in range(20):
        torch.ones(4).sum()
        getattr(callback, step)(None, None, None, batch_idx=0) if "batch" in step else getattr(callback, step)(None)
    assert told(tmp_path / "run")["status"] == "finished"  # once it has all, not at the end of the training
    getattr(callback, end)(None, None)
    getattr(callback, begin)(None, None, None)  # a second fit is not recorded, and not refused
    assert open_path(tmp_path / "run", cache=False).main.steps.height == 2


def test_a_training_that_fails_without_a_word_to_its_callback_ends_the_recording(tmp_path: Path) -> None:
    (tmp_path / "transformers.py").write_text("class TrainerCallback: ...\n")
    program = tmp_path / "train.py"
    program.write_text(
        "from tracetui.collectors.child.trainers import huggingface_callback\n"
        f"callback = huggingface_callback({str(tmp_path / 'run')!r}, steps=2, warmup=1, clean_steps=3)\n"
        "callback.on_train_begin()\n"
        "callback.on_step_end()\n"
        "raise KeyError('theirs')\n"
    )
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("tracetui: KeyError")) == (1, 1)
    assert told(tmp_path / "run")["outcome"]["explanation"] == "KeyError"
