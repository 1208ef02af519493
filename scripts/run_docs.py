"""Run the code of the docs, compare its output with what is shown, or refresh it.

A block of ``sh`` or ``python`` may be followed by a block of ``text``: its output.
A comment ``<!-- output: 1-8 20-24 -->`` before that block says which lines are shown
(all of them by default), and ``varies`` in it that they depend on the machine.

``python scripts/run_docs.py`` compares, ``--write`` brings the pages up to date. All
blocks of Python are run, those of a page one after another; shell commands likewise on
pages that say ``<!-- run sh -->``. Both start in a folder with a copy of
``examples/data``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

# A block of code, and the block of its output, if there is one.
_STEP = re.compile(
    r"^```(?P<language>sh|python)\n(?P<code>.*?)^```\n"
    r"(?:\s*(?P<note><!-- output:?[^>]*-->\n)?\n?^```text\n(?P<output>.*?)^```\n)?",
    flags=re.M | re.S,
)
_ELLIPSIS = "..."
_SEPARATOR = "=== end of block ==="
# What the machine decides, and the width that follows from it.
_MEASURED = re.compile(r"(?:< )?[\d.,]+ ?(ms|s|min|KB|MB|GB)\b")
_RULE = re.compile(r"─+")
_NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
_TOLERANCE = 0.05


@dataclass(frozen=True)
class Step:
    """A block of code on a page, and the output that the page shows."""

    language: str
    code: str
    note: str
    output: str | None

    @property
    def varies(self) -> bool:
        """Whether the page says that the output depends on the machine."""
        return "varies" in self.note


def steps(page: Path, language: str) -> list[Step]:
    """Return the blocks of a language on a page."""
    return [
        Step(found["language"], found["code"], found["note"] or "", found["output"])
        for found in _STEP.finditer(page.read_text("utf-8"))
        if found["language"] == language
    ]


def pages(language: str) -> list[Path]:
    """Return the pages that have blocks of a language to run."""
    wanted = {"sh": "<!-- run sh -->", "python": "```python\n"}[language]
    every = sorted(DOCS.rglob("*.md"))
    return [page for page in every if wanted in page.read_text("utf-8")]


def run(page: Path, language: str) -> list[str]:
    """Run the blocks of a page in a fresh folder and return what each printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in (ROOT / "examples" / "data").iterdir():
            shutil.copy(path, folder)
        listed = steps(page, language)
        if language == "sh":
            return [_call(["sh", "-e", "-c", step.code], folder) for step in listed]
        ending = f"\nprint({_SEPARATOR!r}, flush=True)\n"
        script = "".join(step.code + ending for step in listed)
        printed = _call([sys.executable, "-W", "error", "-c", script], folder)
        return [part.lstrip("\n") for part in printed.split(_SEPARATOR)[:-1]]


def _call(command: list[str], folder: Path) -> str:
    binaries = str(Path(sys.executable).parent)
    hidden = ("GELATO_DATA", "FORCE_COLOR")  # readers have neither
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    environment |= {
        "PATH": binaries + os.pathsep + os.environ.get("PATH", ""),
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8"
    )
    if done.returncode:
        raise RuntimeError(f"{command[-1]}\nfailed:\n{done.stdout}{done.stderr}")
    return done.stdout


def first_difference(shown: str, printed: str) -> str | None:
    """Return the first line shown that was not printed, in order; None if all were."""
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        if line.strip() in ("", _ELLIPSIS):
            continue
        if not any(_alike(line, candidate) for candidate in lines):
            return line
    return None


def _alike(one: str, other: str) -> bool:
    """Tell whether lines have the same words, and numbers that are close."""
    one, other = (_RULE.sub("─", _MEASURED.sub("#", line)) for line in (one, other))
    words = [" ".join(_NUMBER.sub("#", line).split()) for line in (one, other)]
    if words[0] != words[1]:
        return False
    numbers = [
        [float(x.replace(",", "")) for x in _NUMBER.findall(line)]
        for line in (one, other)
    ]
    return all(
        abs(a - b) <= _TOLERANCE * max(abs(a), abs(b))
        for a, b in zip(*numbers, strict=True)
    )


def refreshed(page: Path) -> str:
    """Return the text of a page with the outputs of now."""
    text = page.read_text("utf-8")
    fresh = {
        language: iter(run(page, language))
        for language in ("sh", "python")
        if page in pages(language)
    }

    def renewed(found: re.Match[str]) -> str:
        if found["language"] not in fresh:
            return found[0]
        printed = next(fresh[found["language"]])
        if found["output"] is None:
            return found[0]
        shown = _chosen(printed, found["note"] or "")
        return found[0].replace(f"```text\n{found['output']}", f"```text\n{shown}")

    return _STEP.sub(renewed, text)


def _chosen(printed: str, note: str) -> str:
    """Return the lines that a note asks for, with dots where others are left out."""
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    ranges = [(int(a), int(b)) for a, b in re.findall(r"(\d+)-(\d+)", note)]
    kept: list[str] = []
    last = 0
    for first, stop in ranges or [(1, len(lines))]:
        if first > last + 1:
            kept.append(_ELLIPSIS)
        kept += lines[first - 1 : stop]
        last = stop
    if last < len(lines):
        kept.append(_ELLIPSIS)
    return "".join(f"{line}\n" for line in kept)


def compare(page: Path, language: str) -> list[str]:
    """Return what a page shows and the tool no longer prints."""
    problems = []
    for step, printed in zip(steps(page, language), run(page, language), strict=True):
        if step.output is None or step.varies:
            continue
        wrong = first_difference(step.output, printed)
        if wrong is not None:
            problems.append(f"{page.name}, after\n{step.code}not printed: {wrong}")
    return problems


def main() -> int:
    """Compare all pages, or write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="refresh the pages")
    parser.add_argument("pages", nargs="*", type=Path, help="default: all pages")
    options = parser.parse_args()
    asked = [page.resolve() for page in options.pages]
    problems = []
    for page in dict.fromkeys([*pages("sh"), *pages("python")]):
        if asked and page not in asked:
            continue
        print(page.relative_to(ROOT))
        if options.write:
            page.write_text(refreshed(page), encoding="utf-8")
            continue
        for language in ("sh", "python"):
            if page in pages(language):
                problems += compare(page, language)
    print(*problems, sep="\n\n", end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
