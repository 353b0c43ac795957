"""Checks HTML reports in a headless Chromium, and takes pictures of them for a person to look at.

    python benchmarks/pages_in_browser.py --browser chromium --out pictures [RECORDING ...]

For each report: what the browser complains of (its policy forbids whatever a page should not need), whether the page
is wider than a narrow screen, whether every column sorts by value with unknown last, and pictures at 1600, 900
and 400 pixels, light and dark, beside a PDF. Exit code 1 if a check fails, 2 without a browser.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tracetui.app.cli.main import main as tracetui

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "samples"
REPORTS = {
    "report": ["report", str(SAMPLES / "vim_tiny")],
    "diff": ["diff", str(SAMPLES / "vim_tiny"), str(SAMPLES / "vim_tiny_fp16")],
    "sweep": ["sweep", str(SAMPLES / "topk_deit_sweep")],
}
SCHEMES = {"dark": 0, "light": 1}
WIDTHS = (1600, 900, 400)
PROBE = r"""
<script>
(function () {
  const root = document.documentElement;
  const found = {wide: root.scrollWidth - root.clientWidth, wrong: [], sorts: 0};
  const value = (cell, number) => number
    ? (cell.dataset.v === undefined ? null : Number(cell.dataset.v))
    : (['', '-'].includes(cell.textContent.trim()) ? null : cell.textContent.trim());
  document.querySelectorAll('table[data-sorts]').forEach(table => {
    const before = Array.from(table.tBodies[0].rows);
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      const button = head.querySelector('button');
      if (!button) { if (head.textContent.trim()) { found.wrong.push('no button: ' + head.textContent); } return; }
      const number = 'n' in head.dataset;
      for (let turn = 0; turn < 2; turn++) {
        button.click();
        const up = head.getAttribute('aria-sort') === 'ascending';
        if (up !== (number ? turn === 1 : turn === 0)) { found.wrong.push('direction: ' + head.textContent); }
        const keys = Array.from(table.tBodies[0].rows).map(row => value(row.cells[column], number));
        const known = keys.filter(key => key !== null);
        if (keys.slice(known.length).some(key => key !== null)) { found.wrong.push('unknown: ' + head.textContent); }
        for (let n = 1; n < known.length; n++) {
          const way = number ? known[n] - known[n - 1]
            : known[n].localeCompare(known[n - 1], undefined, {numeric: true});
          if (up ? way < 0 : way > 0) { found.wrong.push('order: ' + head.textContent); break; }
        }
        found.sorts++;
      }
      button.click();
      if (Array.from(table.tBodies[0].rows).some((row, n) => row !== before[n])) {
        found.wrong.push('not restored: ' + head.textContent);
      }
    });
  });
  const result = document.createElement('pre');
  result.id = 'probe';
  result.textContent = JSON.stringify(found);
  document.body.appendChild(result);
}());
</script>
"""
"""Run in a copy of the page without its policy, which would forbid it."""

FORBIDDEN = (
    "<!DOCTYPE html><meta http-equiv=Content-Security-Policy content=\"default-src 'none'\"><title>x</title>"
    '<p style="color: red">not red'
)
"""A page that breaks its own policy, which the browser must say."""


def chromium(browser: str, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Opens a page without a screen."""
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1",
        "--enable-logging=stderr", "--log-level=0", *options, page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def complaints(browser: str, page: Path) -> list[str]:
    """What the page makes the browser say: forbidden styles, scripts and requests, errors of the script."""
    said = chromium(browser, page, "--dump-dom").stderr
    return [line for line in said.splitlines() if "CONSOLE" in line]


def probed(browser: str, page: Path, folder: Path, width: int) -> dict[str, object]:
    """What `PROBE` finds in the page on a screen of this width."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text("utf-8"))
    copy = folder / "copy.html"
    copy.write_text(text.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    frame = folder / "frame.html"
    # a headless window has a least width, a frame has none
    source = html.escape(copy.read_text("utf-8"), quote=True)
    frame.write_text(
        f'<!DOCTYPE html><iframe srcdoc="{source}" style="width:{width}px;height:900px"></iframe>', "utf-8"
    )
    outer = "<script>addEventListener('load', () => document.body.append(document.querySelector('iframe')" + (
        ".contentDocument.getElementById('probe').cloneNode(true)))</script>"
    )
    frame.write_text(frame.read_text("utf-8") + outer, "utf-8")
    dom = chromium(browser, frame, "--dump-dom").stdout
    match = re.search(r'<pre id="probe">(.*?)</pre>', dom[dom.index("</iframe>") :])
    if match is None:
        return {"wide": None, "wrong": ["the probe did not run"], "sorts": 0}
    found: dict[str, object] = json.loads(html.unescape(match[1]))
    return found


def pictures(browser: str, page: Path, out: Path) -> None:
    """The page at each width in each scheme, and as PDF."""
    for width in WIDTHS:
        for scheme, number in SCHEMES.items():
            frame = out / "frame.html"
            tall = 4000 if width > 600 else 9000
            style = f"border:0;width:{width}px;height:{tall}px"
            frame.write_text(
                f'<!DOCTYPE html><body style="margin:0"><iframe src="{page.name}" style="{style}"></iframe>', "utf-8"
            )
            chromium(
                browser, frame, f"--window-size={max(width, 600)},{tall}",
                f"--blink-settings=preferredColorScheme={number}",
                f"--screenshot={out / f'{page.stem}-{width}-{scheme}.png'}",
            )  # fmt: skip
            frame.unlink()
    # printed from a dark screen, which must not reach the paper
    chromium(
        browser, page, "--no-pdf-header-footer", "--blink-settings=preferredColorScheme=0",
        f"--print-to-pdf={page.with_suffix('.pdf')}",
    )  # fmt: skip


def main() -> int:
    """Makes the pages, checks them, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*", type=Path, help="reports beside those of the samples")
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome") or "")
    parser.add_argument("--out", type=Path, required=True, help="the folder for pages and pictures")
    arguments = parser.parse_args()
    if not arguments.browser:
        print("no Chromium found; --browser PATH names one", file=sys.stderr)
        return 2
    arguments.out.mkdir(parents=True, exist_ok=True)
    reports = REPORTS | {path.name.split(".")[0]: ["report", str(path)] for path in arguments.recordings}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        forbidden = Path(folder, "forbidden.html")
        forbidden.write_text(FORBIDDEN, "utf-8")
        if not complaints(arguments.browser, forbidden):
            print("this browser does not say what a page's policy forbids: its silence would prove nothing")
            return 2
        for name, words in reports.items():
            page = (arguments.out / f"{name}.html").resolve()
            tracetui([*words, "--format", "html", "--output", str(page)])
            said = complaints(arguments.browser, page)
            found = [probed(arguments.browser, page, Path(folder), width) for width in WIDTHS]
            pictures(arguments.browser, page, arguments.out.resolve())
            wrong = [*said, *(f"wider by {one['wide']}" for one in found if one["wide"]), *map(str, found[0]["wrong"])]  # type: ignore[call-overload]
            print(f"{name:<24} {page.stat().st_size / 1e3:>7.0f} kB {found[0]['sorts']:>5} sorts  {wrong or 'sound'}")
            failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
