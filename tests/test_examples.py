"""Examples and the README's code run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path):
    done = subprocess.run(
        [sys.executable, "-W", "error", path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.slow
def test_code_of_the_readme_runs():
    text = (ROOT / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    quick = code.replace("seed=1)", "seed=1, epochs=2)")
    assert quick != code
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", quick], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "BIASED" in done.stdout


def test_links_of_the_readme_and_docs_exist():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
