"""`tracetui profile` with stand-ins for NVIDIA's programs: what is launched, and what is left when something fails."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from chosen import pairs
from programs import PATIENCE_SECONDS, eventually, is_running, started
from sample_runs import recorded

from tracetui.analysis.findings.core import program
from tracetui.app.cli.main import main, split_command
from tracetui.collectors import keeper, process, profiler_commands
from tracetui.collectors.folder import RunFolder
from tracetui.collectors.launch import choose_kernels, launch
from tracetui.collectors.request import ProfileError, ProfileRequest
from tracetui.parsers import TraceError, open_path
from tracetui.parsers.runs import manifest as run_manifest
from tracetui.parsers.runs.detect import looks_like_trace
from tracetui.parsers.runs.manifest import Identity, RunManifest, Workload

NSYS = """
case "$1" in
  profile) shift; while case "$1" in -*) true;; *) false;; esac; do
             case "$1" in --output=*) report="${1#--output=}";; esac; shift; done
           echo report > "$report"; exec "$@";;
  export) for word; do case "$word" in --output=*) gzip -dc RECORDING > "${word#--output=}";; esac; done;;
  --version) echo "NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0";;
esac
"""


@pytest.fixture
def nsys(tool):
    recording = recorded("nsys/vim_tiny_fp32_bs4.sqlite.gz")
    return tool("nsys", NSYS.replace("RECORDING", str(recording)))


def profiled(tmp_path, *command, tools=("nsys",), **more):
    """The outcome of a run of a command."""
    request = ProfileRequest(output=tmp_path / "out", command=command, tools=tools, device="cpu", **more)
    return launch(request, lambda _: None)


def manifest_of(outcome):
    return json.loads((outcome.folder / "run.json").read_text())


def test_a_run_leaves_a_folder_that_opens_as_one_run(nsys, tmp_path):
    outcome = profiled(tmp_path, "sh", "-c", "echo hello")
    assert (outcome.status, outcome.exit_code, outcome.problems) == ("finished", 0, [])
    assert outcome.folder == tmp_path / "out"
    assert not list(tmp_path.glob("*.partial"))
    assert "hello" in (outcome.folder / "log.txt").read_text()
    run = open_path(outcome.folder, cache=False)
    assert [trace.info.kind for trace in run.traces] == ["nsys"]
    assert run.manifest is not None
    assert run.manifest.status == "finished"
    assert run.manifest.software.nsys == "2025.3.1.90"
    assert {file.name: file.kind for file in run.manifest.outcome.files} == {"nsys.sqlite": "nsys", "log.txt": "log"}
    assert all(file.sha256 and file.bytes for file in run.manifest.outcome.files)
    assert run.manifest.power.before is not None
    assert run.manifest.power.after is not None
    assert run.manifest.measurement.commands[0][:2] == (str(nsys), "profile")
    assert run.manifest.notes == ()


def test_a_program_that_fails_is_said_with_its_code_and_its_last_words(nsys, tmp_path):
    outcome = profiled(tmp_path, "sh", "-c", "echo no such model >&2; exit 7")
    assert (outcome.status, outcome.exit_code) == ("failed", 7)
    (problem,) = outcome.problems
    assert "exit code 7" in problem
    assert "no such model" in problem
    assert manifest_of(outcome)["outcome"]["exit_code"] == 7
    assert manifest_of(outcome)["status"] == "failed"


def test_a_killed_program_is_taken_for_out_of_memory(nsys, tmp_path):
    outcome = profiled(tmp_path, "sh", "-c", "kill -9 $$")
    assert outcome.status == "failed"
    assert "SIGKILL" in outcome.problems[0]
    assert "memory" in outcome.problems[0]
    assert manifest_of(outcome)["outcome"]["signal"] == "SIGKILL"


def test_denied_counters_are_said_with_their_remedy(tool, tmp_path):
    tool("ncu", 'echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"; exit 1')
    outcome = profiled(tmp_path, "true", tools=("ncu",))
    assert outcome.status == "failed"
    assert "NVreg_RestrictProfilingToAdminUsers=0" in outcome.problems[0]
    assert "\n" not in outcome.problems[0]


def test_what_one_tool_finished_stays_when_the_next_fails(nsys, tool, tmp_path):
    tool("ncu", "exit 9")
    outcome = profiled(tmp_path, "true", tools=("nsys", "ncu"))
    assert outcome.status == "failed"
    assert open_path(outcome.folder, cache=False).main.info.kind == "nsys"
    assert [line.split(":")[0] for line in outcome.problems] == ["ncu"]


def test_a_missing_program_is_said_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tracetui.collectors.machine.probe.PLACES", {})
    with pytest.raises(ProfileError, match="nsys is not on PATH"):
        profiled(tmp_path, "true")
    assert list(tmp_path.iterdir()) == []


def test_a_tool_that_leaves_nothing_has_not_succeeded(tool, tmp_path):
    tool("nsys", "exit 0")
    outcome = profiled(tmp_path, "true")
    assert outcome.status == "failed"
    assert "left no nsys.sqlite" in outcome.problems[0]


def test_a_full_disk_is_one_line(nsys, tmp_path, monkeypatch):
    def full(self, manifest):
        raise ProfileError(f"{self.path}: no space left on the disk")

    monkeypatch.setattr(RunFolder, "write_manifest", full)
    outcome = profiled(tmp_path, "true")
    assert outcome.status == "failed"
    assert any("no space left" in line for line in outcome.problems)


def test_no_room_for_the_child_is_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_, **__):
        raise shutil.Error([("from", "to", "[Errno 28] No space left on device")])

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(ProfileError, match=r"out.partial: \[errno 28\] no space left on device"):
        RunFolder(tmp_path / "out").create()
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "out")
    folder.create()
    folder.write_manifest({"status": "running"})

    def fail(self, *_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(ProfileError, match="no space left on the disk"):
        folder.write_manifest({"status": "finished"})
    monkeypatch.undo()
    assert json.loads((folder.path / "run.json").read_text()) == {"status": "running"}


def test_an_earlier_run_is_not_overwritten(nsys, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(ProfileError, match="exists already"):
        profiled(tmp_path, "true")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_run_that_is_stopped_says_so_and_leaves_nothing_running(nsys, tmp_path, number):
    marker = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ > {marker}; exec sleep 6000"]
    program = [sys.executable, "-c", "from tracetui.app.cli.main import script; script()"]
    words = ["profile", "--tool", "nsys", "--output", str(tmp_path / "out"), "--", *command]
    with started([*program, *words], stderr=subprocess.PIPE, text=True) as process:
        eventually(lambda: marker.exists() and marker.read_text().strip())
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert "interrupted" in said
    manifest = run_manifest.load(tmp_path / "out")
    assert manifest is not None
    assert manifest.status == "interrupted"
    with pytest.raises(ProcessLookupError):
        os.kill(int(marker.read_text()), 0)


LEAVES = {
    "a job in the background": "sleep 99 & echo $! >> {0}; (exec sleep 99) & echo $! >> {0}; ",
    "one that ignores signals": "(trap '' TERM INT HUP; exec sleep 99) & echo $! >> {0}; sleep 99 & echo $! >> {0}; ",
    "a session of its own": "setsid sh -c 'echo $$ >> {0}; exec sleep 99' & setsid sh -c 'echo $$ >> {0}; sleep 99' & ",
    "a grandchild of nobody": "(setsid sh -c 'trap \"\" TERM; sleep 99 & echo $! >> {0}; echo $$ >> {0}; wait' &) ; ",
}


ENDS = ("asked", "by itself", "asked, and its leader is gone")


@pytest.mark.parametrize(("leaves", "ends"), pairs(LEAVES, ENDS, 2))
def test_what_a_program_left_ends_with_it(tmp_path, monkeypatch, leaves, ends):
    monkeypatch.setattr(process, "PATIENCE_S", 0.3)
    marker = tmp_path / "pids"
    both = f'while [ "$(wc -w < {marker})" -lt 2 ]; do sleep 0.02; done; '
    last = {"asked": "sleep 600; true", "by itself": both + "exit 7", "asked, and its leader is gone": "exec sleep 600"}

    def tick():
        if ends != "by itself" and marker.exists() and len(marker.read_text().split()) == 2:
            raise KeyboardInterrupt

    command = ["sh", "-c", f"touch {marker}; " + LEAVES[leaves].format(marker) + last[ends]]
    if ends == "by itself":
        assert process.run(command, tmp_path / "log.txt", tick) == 7
    else:
        with pytest.raises(KeyboardInterrupt):
            process.run(command, tmp_path / "log.txt", tick)
    pids = [int(pid) for pid in marker.read_text().split()]
    assert len(pids) == 2
    assert not any(is_running(pid) for pid in pids)


def test_nothing_outlives_a_tracetui_that_is_killed(nsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACETUI_EXPORT", "1")
    marker = tmp_path / "pids"
    script = f"setsid sh -c 'echo $$ >> {marker}; exec sleep 600' & echo $$ >> {marker}; exec sleep 600"
    words = ["profile", "--tool", "nsys", "--output", str(tmp_path / "out"), "--", "sh", "-c", script]
    begin = "from tracetui.collectors import process; process.PATIENCE_S = 0.3; "
    program = begin + f"from tracetui.app.cli.main import main; main({words!r})"
    with started([sys.executable, "-c", program], stderr=subprocess.DEVNULL):
        eventually(lambda: marker.exists() and len(marker.read_text().split()) == 2)
    eventually(lambda: not any(is_running(int(pid)) for pid in marker.read_text().split()))
    said = [str(line) for line in open_path(tmp_path / "out.partial", cache=False).warnings]
    assert any("this run was cut off: tracetui was killed, or its machine failed" in line for line in said)


@pytest.mark.skipif(sys.platform != "linux", reason="no PR_SET_PDEATHSIG")
def test_a_program_ends_with_the_keeper_that_is_killed(tmp_path):
    marker = tmp_path / "pid"

    def tick():
        if marker.exists() and (pid := marker.read_text().strip()):
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            assert keeper.__file__.encode() in Path(f"/proc/{parent}/cmdline").read_bytes()
            os.kill(parent, signal.SIGKILL)

    assert (
        process.run(["sh", "-c", f"echo $$ > {marker}; exec sleep 600"], tmp_path / "log.txt", tick) == -signal.SIGKILL
    )
    eventually(lambda: not is_running(int(marker.read_text())))


def test_a_run_under_way_says_so(tmp_path):
    here = {"pid": os.getpid(), "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip()}
    folder = tmp_path / "out.partial"
    folder.mkdir()
    for identity, said in (
        (here, rf"this run is still under way \(process {os.getpid()}\)"),
        ({**here, "boot_id": "another"}, r"this run was under way when its run\.json was last written"),
    ):
        manifest = {"schema": "tracetui.run/1", "status": "running", "identity": identity}
        (folder / "run.json").write_text(json.dumps(manifest))
        with pytest.raises(TraceError, match=said):
            open_path(folder, cache=False)


def test_a_program_that_talks_without_end_leaves_its_first_and_last_words(tmp_path):
    log = tmp_path / "log.txt"
    program = "import sys; sys.stdout.writelines(f'line {n:09}\\n' for n in range(400_000))"
    assert process.run([sys.executable, "-c", program], log, lambda: None) == 0
    text = log.read_bytes()
    assert len(text) < 2.6 * keeper.LOG_TAIL + keeper.LOG_HEAD
    head, left_out, tail = re.split(rb"\n\[(\d+) bytes left out\]\n", text)
    assert head.splitlines()[1] == b"line 000000000"
    assert tail.splitlines()[-1] == b"line 000399999"
    said = text.splitlines()[0] + b"\n"
    assert len(head) + int(left_out) + len(tail) == len(said) + 400_000 * len(b"line 000000000\n")


def test_how_a_program_ended_is_told(tmp_path):
    log = tmp_path / "log.txt"
    assert process.run(["sh", "-c", "echo said; exit 3"], log, lambda: None) == 3
    assert process.run(["sh", "-c", "kill -SEGV $$"], log, lambda: None) == -signal.SIGSEGV
    assert process.run(["sh", "-c", "kill -9 $$"], log, lambda: None) == -signal.SIGKILL
    with pytest.raises(OSError, match="No such file") as raised:
        process.run([str(tmp_path / "nothing")], log, lambda: None)
    assert raised.value.errno == errno.ENOENT
    assert "said" in log.read_text()
    assert process.run(["sh", "-c", "echo out; echo err >&2"], log, lambda: None, output=tmp_path / "out") == 0
    assert (tmp_path / "out").read_text() == "out\n"
    assert log.read_text().endswith("err\n")


def test_a_run_that_takes_too_long_is_ended(nsys, tmp_path):
    begun = time.monotonic()
    outcome = profiled(tmp_path, "sleep", "600", timeout_s=0.5)
    assert time.monotonic() - begun < 600, "the program did not end by itself"
    assert outcome.status == "failed"
    assert "had not ended after 0.5 s (--timeout)" in outcome.problems[0]


def test_the_recording_of_a_program_that_failed_is_exported(nsys, tmp_path):
    outcome = profiled(tmp_path, "sh", "-c", "exit 7")
    assert outcome.exit_code == 7
    assert open_path(outcome.folder, cache=False).main.device.height


def test_a_run_without_a_recording_says_why_when_it_is_opened(tool, tmp_path, capsys):
    tool("nsys", "exit 7")
    outcome = profiled(tmp_path, "true")
    assert main(["report", str(outcome.folder)]) == 1
    assert "exit code 7" in capsys.readouterr().err


def test_no_environment_but_what_changes_speed_is_kept(nsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    outcome = profiled(tmp_path, "true")
    text = (outcome.folder / "run.json").read_text()
    assert "hunter2" not in text
    assert manifest_of(outcome)["workload"]["environment"]["CUDA_LAUNCH_BLOCKING"] == "1"


def test_progress_is_told(nsys, tmp_path):
    seen = []
    request = ProfileRequest(output=tmp_path / "out", command=("sh", "-c", "sleep 0.5"), tools=("nsys",), device="cpu")
    launch(request, seen.append)
    assert seen
    assert {tick.tool for tick in seen} == {"nsys"}
    assert seen[-1].elapsed_s >= seen[0].elapsed_s


# --- commands


def test_a_dry_run_prints_commands_and_reasons_and_makes_nothing(tmp_path, capsys):
    output = tmp_path / "out"
    assert main(["profile", "vim_tiny", "--tool", "all", "--device", "cuda", "--dry-run", "--output", str(output)]) == 0
    said = capsys.readouterr().out
    for words in ("--capture-range=cudaProfilerApi", "--clock-control none", "--type=sqlite", "--page raw"):
        assert words in said
    assert "10 timed without a profiler (clean), then 5 s at most sampled from outside by py-spy" in said
    assert "(samples.json), then 10 recorded lightly" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("asked", "said"),
    [(["--no-light"], None), (["--light-steps", "0"], None), (["--light-steps", "25"], "25 recorded lightly")],
)
def test_how_much_is_recorded_lightly_is_asked_for(tmp_path, capsys, asked, said):
    words = ["profile", "mlp", "--device", "cuda", "--dry-run", "--output", str(tmp_path / "out"), *asked]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert said in out if said else "lightly" not in out


def test_a_light_recording_is_asked_for_once(capsys):
    assert main(["profile", "mlp", "--no-light", "--light-steps", "5", "--dry-run"]) == 2
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--sweep", "batch=1,2"], ["--sweep", "batch=1,2", "--dry-run"]])
@pytest.mark.parametrize(
    ("asked", "words"), [(["nope"], "no model 'nope'"), (["vim_tiny", "--ctx", "5"], "vim_tiny takes no 'ctx'")]
)
def test_what_no_model_takes_is_refused_before_anything_is_made(tmp_path, capsys, asked, words, more):
    assert main(["profile", *asked, *more, "--output", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    assert words in err
    assert not out
    assert not list(tmp_path.iterdir())


@pytest.fixture
def bare_python(tool):
    """A Python that has no package."""
    return tool("python-bare", f'exec {sys.executable} -I -S "$@"')


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        (["vim_tiny"], []),
        (["mlp", "--tool", "memory"], []),
        (["timm:resnet18"], []),
        (["mlp"], ["--sweep", "batch=1,2"]),
        (["--tool", "torch"], ["--", "PYTHON", "x.py"]),
    ],
)
def test_a_missing_package_is_said_before_anything_is_made(tmp_path, capsys, bare_python, asked, more):
    if more[:1] == ["--"]:  # the program's own Python
        more = [str(bare_python) if word == "PYTHON" else word for word in more]
    else:
        asked = [*asked, "--python", str(bare_python)]
    assert main(["profile", *asked, "--output", str(tmp_path / "out"), *more]) == 2
    assert "needs torch, which is not installed in" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["bin"], "where the Python is"


def test_a_missing_package_leaves_a_folder_of_the_users_alone(tmp_path, capsys, bare_python):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    assert main(["profile", "mlp", "--python", str(bare_python), "--output", str(out)]) == 2
    assert "pip install torch" in capsys.readouterr().err
    assert (out / "mine.txt").read_text() == "mine"


def test_a_python_that_gives_no_answer_is_judged_by_the_run(tool, tmp_path, capsys):
    silent = tool("silent-python", "exit 9")
    assert main(["profile", "mlp", "--python", str(silent), "--no-open", "--output", str(tmp_path / "out")]) == 9
    assert "exit code 9" in capsys.readouterr().err


def test_a_sweep_without_its_profiler_makes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tracetui.collectors.launch.find_tool", lambda probe, name: None)
    out = tmp_path / "out"
    assert main(["profile", "mlp", "--tool", "nsys", "--sweep", "batch=1,2", "--output", str(out)]) == 2
    assert "nsys is not on PATH" in capsys.readouterr().err
    assert not out.exists()


def test_every_flag_has_a_reason():
    request = ProfileRequest(output=Path("out"), entry="mlp", tools=("torch", "nsys", "ncu", "memory"))
    for tool in request.tools:
        phase = profiler_commands.make_phase(request, tool, Path("out"), {"nsys": "nsys", "ncu": "ncu"})
        for command in (phase.record, *phase.finish):
            assert all(flag.why for flag in command.flags), command.purpose


def test_ncu_measures_the_kernels_that_take_the_time(recording):
    chosen = choose_kernels(recording("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"))
    assert chosen is not None
    assert chosen.share_percent >= 95
    assert chosen.functions[0] == "selective_scan_fwd_kernel"
    assert "selective_scan_fwd_kernel" in chosen.pattern
    request = ProfileRequest(output=Path("out"), entry="vim_tiny", tools=("ncu",), ncu_launches=10)
    words = profiler_commands.make_phase(request, "ncu", Path("out"), {"ncu": "ncu"}, chosen).record.words
    assert words[words.index("--launch-count") + 1] == "10"
    assert words[words.index("--kernel-name") + 1] == f"regex:{chosen.pattern}"


def test_words_after_two_dashes_are_the_program():
    assert split_command(["profile", "--steps", "2", "--", "python", "x.py", "--", "y"]) == (
        ["profile", "--steps", "2"],
        ("python", "x.py", "--", "y"),
    )
    assert split_command(["report", "--", "x"]) == (["report", "--", "x"], ())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["profile"], "takes a model"),
        (["profile", "mlp", "--", "python", "x.py"], "one of both"),
        (["profile", "--batch", "4", "--", "python", "x.py"], "--batch is an option for models"),
        (["profile", "--", "./train.sh"], "--tool nsys or ncu"),
        (["profile", "mlp", "--tool", "perf"], "no tool 'perf'"),
        (["profile", "mlp", "--sweep", "batch=1,x"], "'x' is not a whole number"),
        (["profile", "mlp", "--sweep", "colour=1"], "not an axis"),
        (["profile", "mlp", "--sweep", "dtype=fp32,fp8"], "no dtype 'fp8'"),
        (["profile", "mlp", "--keep", "1.5"], "not a fraction"),
        (["profile", "mlp", "--window", "5"], "not a time span"),
    ],
)
def test_what_does_not_fit_together_is_wrong_usage(words, said, capsys):
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_the_child_is_python_3_8():
    import ast

    for file in (Path(profiler_commands.__file__).parent / "child").glob("*.py"):
        ast.parse(file.read_text(), feature_version=(3, 8))


def test_samples_of_the_machine_s_state_are_a_line_each(tmp_path):
    folder = RunFolder(tmp_path / "out")
    folder.create()
    sample = {"time_unix_ns": 1, "gpus": [{"index": 0, "clock_hz": 2, "power_mw": None}], "mode_id": None}
    manifest = {"schema": "tracetui.run/1", "status": "finished", "power": {"before": None, "during": [sample] * 3}}
    folder.write_manifest(manifest)
    text = (folder.path / "run.json").read_text()
    assert text.count('{"time_unix_ns":1,"gpus":[{"index":0,"clock_hz":2}]}') == 3
    assert json.loads(text)["status"] == "finished"


def test_a_rerun_leaves_out_where_the_first_run_went():
    words = ["profile", "vim_tiny", "--output", "here", "--no-open", "--output=there", "--out", "x", "--batch", "4"]
    assert program._without(words, program._OF_THE_FOLDER) == ["profile", "vim_tiny", "--batch", "4"]


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("profile vim_tiny --batch 4 --train", ("--batch", "16"), "profile vim_tiny --train --batch 16"),
        ("profile vim_tiny --batch=4", ("--batch", "16"), "profile vim_tiny --batch 16"),
        ("profile vim_tiny --bat 4 --compile", ("--compile",), "profile vim_tiny --bat 4 --compile"),
        ("profile vim_tiny --bat 4 --compile", ("--batch", "16"), "profile vim_tiny --compile --batch 16"),
        ("profile mlp --dtype fp32 --tool torch", ("--tool", "torch,ncu"), "profile mlp --dtype fp32 --tool torch,ncu"),
        ("profile vim_tiny --sweep batch=1,4 --batch 2", ("--batch", "16"), "profile vim_tiny --batch 16"),
        ("profile vim_tiny --no-stack --steps 3", ("--no-stack",), "profile vim_tiny --steps 3 --no-stack"),
    ],
)
def test_a_rerun_says_each_option_once(command, options, said):
    manifest = RunManifest(
        identity=Identity(command=("tracetui", *command.split())), workload=Workload(options={"batch": 2})
    )
    assert program.rerun(SimpleNamespace(manifest=manifest), *options) == f"tracetui {said}"


def test_the_memory_of_a_program_is_refused_before_anything_is_made(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "--tool", "memory", "--", "python", "train.py"]) == 2
    assert "_dump_snapshot" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_run_s_own_log_is_no_ncu_file(tmp_path):
    said = "==PROF== Connected to process 7\n==PROF== Report: run.ncu-rep\n"
    (tmp_path / "log.txt").write_text(said)
    assert looks_like_trace(tmp_path / "log.txt")
    (tmp_path / "run.json").write_text("{}")
    assert not looks_like_trace(tmp_path / "log.txt")
