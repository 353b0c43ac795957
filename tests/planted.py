"""Kinds of private texts, planted into a recording of every format; benchmarks/trust.md has what came of it.

python tests/planted.py  # writes the table of benchmarks/trust.md
"""

import base64
import gzip
import json
import pickle
import random
import re
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from nsys_file import NsysFile

from tracetui.collectors.scrub import scrub_file
from tracetui.collectors.scrubbing.redactor import Redactor

DOC = Path(__file__).resolve().parents[1] / "benchmarks" / "trust.md"
TITLE = "## What scrub takes out"


class Kind(NamedTuple):
    """One kind: `text` has `%` where the private word stands, which `word` makes of a few random letters."""

    number: int
    title: str
    text: str
    word: str = "zq%"


def _kinds() -> tuple[Kind, ...]:
    plain = (
        "user name in /home|/home/%/run/train.py", "user name in /Users|/Users/%/run/train.py",
        "user name in C:\\Users|C:\\Users\\%\\run\\train.py", "/root/PROJECT|/root/%", "user@host|ada@%|node7zq%",
        "e-mail|%@example.org", "full host name|%|node7-%.cluster.internal", "host:port|%:29500|gpu7%",
        "short host name|hostname=%", "IPv4|%|10.83.IP.IP", "IPv6|%|2001:db8:HEX4:HEX4::7",
        "MAC|%|9e:5f:HEX2:HEX2:HEX2:0a", "serial number and UUID of a GPU|serial number: %|165HEX4zHEX4",
        "machine id|machine-id %|4f7HEX8HEX8HEX8a0b1c", "container id|docker://%|c0ffeHEX8HEX8a1",
        "pod or job name|pod %|train-llama-%-7x9kd", "SLURM_JOB_USER=|SLURM_JOB_USER=%",
        "SLURM_NODELIST=|SLURM_NODELIST=%[01-04]", "rest of a path after a blank|/home/ada/My %/train.py",
        "network share|//fileserver/%/set", "bucket|s3://%/train/set.tar",
        "git remote with user|git@git.example.org:%/model.git", "time zone and locale|TZ=%|Europe/Zq%",
        "names of other processes|pid 4711 (%)", "hf_|%|hf_TOKEN20", "ghp_, github_pat_|%|ghp_TOKEN20",
        "glpat-|%|glpat-TOKEN20", "sk-, sk-ant-|%|sk-ant-TOKEN20",
        "AKIA with its secret|AKIAIOSFODNN7EXAMPLE:%|TOKEN20TOKEN20", "ASIA and session token|%|IQoJb3JpZ2luTOKEN20",
        "AIza|%|AIzaSyTOKEN20TOKEN20", "ya29.|%|ya29.a0TOKEN20", "xoxb-|%|xoxb-12345-TOKEN20",
        "npm_|%|npm_TOKEN20TOKEN10", "pypi-|%|pypi-TOKEN20", "dckr_pat_|%|dckr_pat_TOKEN20",
        "SG.|%|SG.TOKEN20.TOKEN20", "sk_live_|%|sk_live_TOKEN20",
        "JWT|%|eyJhbGciOiJI.eyJzdWIi.TOKEN20".replace("eyJzdWIi.", "eyJzdWIiOiIx."),
        "PEM block|-----BEGIN PRIVATE KEY-----\\n%\\n-----END PRIVATE KEY-----|MIITOKEN20",
        "OpenSSH private key|-----BEGIN OPENSSH PRIVATE KEY-----\\n%\\n-----END OPENSSH PRIVATE KEY-----|b3BTOKEN20",
        "Authorization: Bearer|Authorization: Bearer %|TOKEN20",
        "Authorization: Basic|Authorization: Basic %|TOKEN20", "cookie session=|session=%|TOKEN20",
        "login in a URL|https://ada:%@git.example.org/x|TOKEN10",
        "signature in a URL|https://b.s3.example.com/x?X-Amz-Signature=%&e=3|TOKEN20",
        "AccountKey=|AccountKey=%|TOKEN20==", "DSN with password|postgresql://ada:%@db.example.org/x|TOKEN10",
        "password=, --password|--password %|TOKEN10", "--token, --api-key|--api-key %|TOKEN10",
        "WANDB_API_KEY=|WANDB_API_KEY=%|TOKEN20", "NAME_SECRET=, NAME_TOKEN=|MYAPP_SECRET=%|TOKEN10",
        ".netrc line|machine git.example.org login ada password %|TOKEN10", "kubeconfig token|token: %|TOKEN20",
        "webhook|https://hooks.slack.com/services/T0/B0/%|TOKEN20",
        "registry login|docker login reg.example.org -u ada -p %|TOKEN10", "license server|27000@%",
        "hex key after key|key=%|HEX8HEX8HEX8HEX8HEX8", "base64 after Basic or token|token %|BASE64",
        "path after --model, --data|--model /models/%/weights",
        "JWT in a query|https://api.example.org/v1?access_token=eyJhbGciOiJI.eyJzdWIiOiIx.%&x=1|TOKEN20",
        "presigned URL of S3|https://b.s3.amazonaws.com/a?X-Amz-Credential=AKIAIOSFODNN7EXAMPLE&X-Amz-Signature=%|HEX32",
        "bucket in a host's name|https://%.s3.amazonaws.com/a/b.pt",
        "SAS of Azure|sv=2022-11-02&ss=b&sp=rl&sig=%|TOKEN20",
        "AccountName=|DefaultEndpointsProtocol=https;AccountName=%;AccountKey=abc==|acct%",
        "Slack, Discord or Teams hook without https|hooks.slack.com/workflows/T00/B00/%|TOKEN20",
        "body of an OpenSSH key|b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ%|TOKEN20",
        "body of a PKCS key|MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj%|TOKEN20",
        "public key of SSH|ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI%|TOKEN20", "line of known_hosts|\\1\\%=\\abc=|TOKEN20",
        "service of Kubernetes|%.team-a.svc.cluster.local|trainer%", "IPv6 in a URL|tcp://[%]:29500|2001:db8:HEX4:HEX4::7",
        "e-mail in a module's name|model.%@example.org.layer1|zq%", "UNC path|C:\\x \\\\?\\UNC\\%\\share\\x.py|fs%",
        "file: with a drive|file:///C:/Users/%/x.py", "home folder behind /mnt/c|/mnt/c/Users/%/x.py",
        "cgroup of a container|0::/kubepods.slice/cri-containerd-%.scope|HEX32",
        "git remote with a token|https://x-access-token:%@github.com/org/repo.git|TOKEN20",
        "repository of a hub|https://huggingface.co/%/model|org%", "W&B run|https://wandb.ai/%/proj/runs/ab12cd34|team%",
        "WANDB_ENTITY=, WANDB_PROJECT=|WANDB_ENTITY=%|team%", "wandb login|wandb login %|HEX40",
        "DSN with options|Server=tcp:%.database.windows.net,1433;User Id=ada;Password=abc|srv%",
        "user of a DSN|Driver={x};Uid=%;Pwd=x", "key of a service account|\"private_key_id\": \"%\"|HEX40",
        "project of a cloud|projects/%/locations/us|proj%-77", "ARN|arn:aws:iam::123456789012:user/%",
        "image in a registry|123456789012.dkr.ecr.us-east-1.amazonaws.com/%:latest|team%",
        "bot of Telegram|123456789:AA%|TOKEN20TOKEN20",
        "1//0|1//0g%|TOKEN20", "AC or SK with 32 digits|AC%|HEX32", "dapi|dapi%|HEX32", "hvs.|hvs.%|TOKEN20",
        "atlasv1|abc123.atlasv1.%|TOKEN20", "r8_, pplx-, xai-|xai-%|TOKEN20", "lsv2_pt_|lsv2_pt_%|HEX32",
        "dop_v1_|dop_v1_%|HEX40", "shpat_, ntn_, figd_|ntn_%|TOKEN20", "glsa_, NRAK-, PMAK-|NRAK-%|TOKEN20",
        "tskey-, sbp_, CCIPAT_|tskey-auth-%|TOKEN20", "api_org_|api_org_%|TOKEN20",
        "auth of Docker|{\"auth\": \"%\"}|BASE64",
        "MAC with dots|link %|9e5f.HEX4.HEX4", "GUID of InfiniBand|node guid %|HEX4:HEX4:HEX4:HEX4",
        "curl -u|curl -u ada:% https://x.example.org/|TOKEN10", "PGPASSWORD=|PGPASSWORD=% psql|TOKEN10",
        ".pgpass line|db.example.org:5432:x:ada:%|TOKEN10",
        "host before NCCL INFO|%:1234:5678 [0] NCCL INFO Bootstrap|dgx-%",
        "server of an export|%:/export/home on /mnt|fs7%", "list of nodes|nodes %[01-04,07]|gpu%",
        "author|Author: % Lovelace|Zq%",
        "phone number|call +1 202 555 %|01IP", "entry of a directory|CN=%,OU=People,DC=corp,DC=example|Zq%",
        "user of a domain|logged in as CORP\\%",
        "seed phrase|mnemonic: % abandon ability",
        "SUDO_USER:|SUDO_USER: %", "bot of Discord|MTE5NDQ2NzE4MzYxMDU0OTc2OA.GzQwXy.%|TOKEN20TOKEN10",
        "s. of Vault|s.Zq1x%|TOKEN20", "key- of Mailgun|key-zq3ax6xnjp29%|TOKEN20",
        "NAME_KEY and hex|MYAPP_KEY %|HEX8HEX16",
        "models--org--name|models--%--gpt/snapshots|org%", "--dataset_name|--dataset_name %", "--rdzv-id|--rdzv-id %",
        "what id prints|uid=1001(%) gid=1001(x) groups=1001(x),27(sudo)",
        "secret in quotes within quotes|declare -x SECRET_THING=\"%\"|TOKEN10",
    )  # fmt: skip
    return tuple(
        Kind(n, *(part.replace("\\n", "\n").replace("\\1\\", "|1|").replace("=\\a", "=|a") for part in line.split("|")))
        for n, line in enumerate(plain, 1)
    )


KINDS = _kinds()
FORMS = (
    "plain", "in a sentence", "in JSON", "URL-encoded", "as a key in JSON", "in JSON in JSON", "in base64",
    "as escapes",
)  # fmt: skip
FORMATS = ("Chrome", "JAX", "nsys", "ncu", "run.json", "memory snapshot", "log.txt")
_LETTERS = "bcdfghjklmnpqrstvwxyz"


class Plant(NamedTuple):
    """A text with something private in it, and what must not be found in the copy."""

    kind: Kind
    form: str
    text: str
    word: str
    """What no other text holds."""


def planted(kind: Kind, form: str, dice: random.Random) -> Plant:
    """One kind in one form, with a word of its own."""
    core = "".join(dice.choice(_LETTERS) for _ in range(8))

    def some(length: int, letters: str) -> str:
        return "".join(dice.choice(letters) for _ in range(length))

    word = kind.word.replace("%", core)
    told = core
    for sign, length in (("TOKEN20", 20), ("TOKEN10", 10)):
        while sign in word:
            made = some(length - 4, "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ") + f"{dice.randint(1000, 9999)}"
            word, told = word.replace(sign, made, 1), made
    if "BASE64" in word:
        word = told = base64.b64encode(f"ada:{core}{dice.randint(10, 99)}".encode()).decode().rstrip("=")
    while found := re.search(r"HEX(\d+)", word):
        digits = some(int(found[1]) - 2, "0123456789abcdef") + "7e"
        word = told = word[: found.start()] + digits + word[found.end() :]
    while "IP" in word:
        word = told = word.replace("IP", str(dice.randint(100, 250)), 1)
    text = kind.text.replace("%", word)
    if form == "in a sentence":
        text = f"began, {text} and went on"
    elif form == "in JSON":
        text = json.dumps({"note": text, "n": 1})
    elif form == "URL-encoded":
        text = quote(text, safe="")
    elif form == "as a key in JSON":
        text = json.dumps({text: 1})
    elif form == "in JSON in JSON":
        text = json.dumps({"a": json.dumps({"note": text})})
    elif form == "as escapes":
        text = "".join(f"\\u{ord(letter):04x}" for letter in text)
    elif form == "in base64":
        text = told = base64.b64encode(text.encode()).decode()
    return Plant(kind, form, text, told)


def plants(seed: int = 7) -> list[Plant]:
    """Every kind in every form."""
    dice = random.Random(seed)
    return [planted(kind, form, dice) for kind in KINDS for form in FORMS]


def chrome(path: Path, what: list[Plant], *, names: bool) -> None:
    """Arguments, metadata, thread names and keys; names of operators, ranges and functions."""
    events: list[dict[str, Any]] = []
    for n, plant in enumerate(what):
        base = {"ph": "X", "pid": 1, "tid": 1, "ts": n * 10, "dur": 3}
        if names:
            cat = ("cpu_op", "user_annotation", "python_function", "kernel")[n % 4]
            text = f"x.py(3): {plant.text}" if cat == "python_function" else plant.text
            events.append({**base, "cat": cat, "name": text, "args": {}})
        else:
            args = ({"note": plant.text}, {plant.text: 1}, {"list": [plant.text, 2]}, {"nested": {"x": plant.text}})
            events.append({**base, "cat": "cpu_op", "name": "aten::mm", "args": args[n % 4]})
            name = {"ph": "M", "name": "thread_name", "pid": 1, "tid": n + 9, "args": {"name": plant.text}}
            events.append(name)
    metadata = {} if names else {f"meta{n}": plant.text for n, plant in enumerate(what)}
    path.write_text(json.dumps({"schemaVersion": 1, **metadata, "traceEvents": events}))


def jax(path: Path, what: list[Plant], *, names: bool) -> None:
    """As JAX's profiler writes: HLO arguments, process names."""
    head = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}}]
    events: list[dict[str, Any]] = []
    for n, plant in enumerate(what):
        name = plant.text if names else "fusion.3"
        args = {"hlo_op": plant.text, "tf_op": plant.text} if names else {"source": plant.text, "device_ordinal": "0"}
        events.append({"ph": "X", "pid": 1, "tid": 14, "ts": n * 10, "dur": 3, "name": name, "args": args})
    text = json.dumps({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": head + events})
    path.write_bytes(gzip.compress(text.encode(), 1))


def nsys(path: Path, what: list[Plant], *, names: bool) -> None:
    """StringIds with and without events, ranges, settings, diagnostics, free tables."""
    file = NsysFile()
    file.launch("gemm", call=(10, 20), kernel=(30, 60))
    for n, plant in enumerate(what):
        if names:
            with file.range(plant.text, n * 10, n * 10 + 5):
                file.launch(plant.text, call=(n * 10 + 1, n * 10 + 2), kernel=(n * 10 + 3, n * 10 + 4))
        else:
            file.row("DIAGNOSTIC_EVENT", severity=2, text=plant.text)
            file.row("TARGET_INFO_SYSTEM_ENV", globalVid=1, name=f"X{n}", value=plant.text)
            file.row("META_DATA_CAPTURE", name=f"Y{n}", value=plant.text)
            file.row("StringIds", id=1000 + n, value=plant.text)
    file.write(path)


def ncu(path: Path, what: list[Plant], *, names: bool) -> None:
    """Kernel names with their arguments; context, stream and what the rules say."""
    columns = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Section Name",
               "Metric Name", "Metric Unit", "Metric Value", "Rule Description")  # fmt: skip

    def line(cells: tuple[str, ...]) -> str:
        return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + "\n"

    rows = [line(columns)]
    for n, plant in enumerate(what):
        free = ("1", "7", "gpu time") if names else (plant.text, plant.text, plant.text)
        rows.append(line((str(n), "4711", "python3", "127.0.0.1", plant.text if names else "gemm(float*)", *free[:2],
                          "GPU Speed Of Light Throughput", "Duration", "us", "12.5", free[2])))  # fmt: skip
        if not names:
            rows.append(f"==PROF== {plant.text.splitlines()[0]}\n{plant.text}\n" if "\n" not in plant.text else "")
    path.write_text("".join(rows))


def run_json(path: Path, what: list[Plant], *, names: bool) -> None:
    """Its free texts, and the command of an own program."""
    model = " ".join(plant.text for plant in what) if names else "vim_tiny"
    path.write_text(json.dumps({
        "schema": "tracetui.run/1", "status": "finished",
        "workload": {"model": model, "notes": [plant.text for plant in what]},
        "identity": {"host": "lab", "command": [plant.text for plant in what]},
        "notes": {plant.text: n for n, plant in enumerate(what)},
    }))  # fmt: skip


def snapshot(path: Path, what: list[Plant], *, names: bool) -> None:
    """File names and functions of stacks, keys of dictionaries, annotations."""
    frames = [
        {"filename": "a.py" if names else plant.text, "line": 1, "name": plant.text if names else "main"}
        for plant in what
    ]
    entry = {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 11, "frames": frames}
    path.write_bytes(pickle.dumps({
        "segments": [], "device_traces": [[entry]],
        "metadata": {} if names else {plant.text: (plant.text, {"x": plant.text}) for plant in what},
        "external_annotations": [{"stage": "START", "name": plant.text if names else "s", "device": 0, "time_us": 9}
                                 for plant in what],
    }))  # fmt: skip


def log(path: Path, what: list[Plant], *, names: bool) -> None:
    """Lines of a program."""
    path.write_text("".join(f"{plant.text}\n" for plant in what))


_WRITERS: dict[str, tuple[str, Callable[..., None]]] = {
    "Chrome": ("t.json", chrome), "JAX": ("j.trace.json.gz", jax), "nsys": ("n.sqlite", nsys), "ncu": ("c.csv", ncu),
    "run.json": ("run.json", run_json), "memory snapshot": ("m.pickle", snapshot), "log.txt": ("log.txt", log),
}  # fmt: skip


def content(path: Path) -> str:
    """All that the file holds, unpacked; of a database each table's texts and its bytes."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    text = data.decode("utf-8", "replace")
    if data.startswith(b"SQLite"):
        with sqlite3.connect(path) as connection:
            text += "\n".join(connection.iterdump())
        connection.close()
    return text + re.sub(r"\\+u00([0-7][0-9a-f])", lambda escape: chr(int(escape[1], 16)), text)


def left(folder: Path, form: str, what: list[Plant], *, in_names: bool, names: bool) -> list[Plant]:
    """What of the planted is still in the copy of a recording of this format."""
    name, writer = _WRITERS[form]
    source = folder / f"{'names' if in_names else 'values'}-{name}" if name != "log.txt" else folder / name
    source = folder / name if name == "run.json" else source
    writer(source, what, names=in_names)
    redactor = Redactor(names=names)
    target = folder / "copies" / f"{names}-{in_names}-{source.name}"
    scrub_file(source, target, redactor, force=True)
    held, before = content(target), content(source)
    assert all(plant.word in before for plant in what if plant.form != "URL-encoded")
    return [plant for plant in what if plant.word in held]


def tried() -> dict[str, tuple[list[Plant], list[Plant]]]:
    """What is left in copies of each format: in values, and in names with --names."""
    what = plants()
    with tempfile.TemporaryDirectory() as place:
        return {
            form: (
                left(Path(place), form, what, in_names=False, names=True),
                left(Path(place), form, what, in_names=True, names=True),
            )
            for form in FORMATS
        }


def table(found: dict[str, tuple[list[Plant], list[Plant]]]) -> str:
    """The table of kinds and formats: how many of a kind's four forms are left."""
    lines = [
        f"| kind | {' | '.join(FORMATS)} |",
        f"|:--|{'--:|' * len(FORMATS)}",
    ]
    for kind in KINDS:
        cells = []
        for form in FORMATS:
            values, in_names = ([p for p in one if p.kind == kind] for one in found[form])
            cells.append(f"{len(values)} + {len(in_names)}")
        title = f"{kind.number} {kind.title}".replace("|", "\\|").replace("_", "\\_")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """benchmarks/trust.md with the table as it is now."""
    start = text.index("| kind |", text.index(TITLE))
    lines = text[start:].splitlines(keepends=True)
    rows = next((n for n, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return text[:start] + table(tried()) + "".join(lines[rows:])


if __name__ == "__main__":
    DOC.write_text(page(DOC.read_text(encoding="utf-8")), encoding="utf-8")
