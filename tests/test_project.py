"""The project's own files agree with one another: extras, hooks, citation."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import gelato

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def make_commands(target):
    """Return the commands of a target of the Makefile."""
    text = (ROOT / "Makefile").read_text("utf-8")
    lines = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text, flags=re.M)[1]
    commands = [line.strip() for line in lines.splitlines()]
    return [
        command.replace("$(BIN)", ".venv/bin").replace("$(PYTHON)", "python3")
        for command in commands
    ]


def test_hooks_run_the_commands_of_make_check():
    yaml = pytest.importorskip("yaml", reason="the hooks are written in YAML")
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    assert [place["repo"] for place in config["repos"]] == ["local"]  # no network
    hooks = config["repos"][0]["hooks"]
    assert [hook["entry"] for hook in hooks] == make_commands("check")
    assert all(hook["pass_filenames"] is False for hook in hooks)


def test_extras_that_messages_name_exist():
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_call = isinstance(node, ast.Call)
            if is_call and ast.unparse(node.func) == "MissingExtraError":
                named.add(ast.literal_eval(node.args[1]))
    assert named
    assert named <= set(EXTRAS)


def test_extras_that_the_readme_lists_are_all_of_them():
    text = (ROOT / "README.md").read_text("utf-8")
    listed = re.search(r"Extras:(.*?)\n\n", text, flags=re.S)[1]
    assert set(re.findall(r"`(\w+)`", listed)) == set(EXTRAS)


def test_pytorch_geometric_is_a_format_of_graphs():
    holding = [
        name
        for name, packages in EXTRAS.items()
        if any(package.startswith("torch-geometric") for package in packages)
    ]
    assert holding == ["graphs"]
    (inherited,) = (x for x in EXTRAS["dev"] if x.startswith("gelato-lp["))
    assert "graphs" in inherited.partition("[")[2].rstrip("]").split(",")


def test_citation_names_this_version_and_the_paper():
    yaml = pytest.importorskip("yaml", reason="citations are written in YAML")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["version"] == gelato.__version__
    assert cited["license"] == PROJECT["license"]
    paper = cited["preferred-citation"]
    assert paper["title"] == "Link Prediction without Graph Neural Networks"
    assert paper["url"] == PROJECT["urls"]["Paper"]
    assert len(paper["authors"]) == 4


def test_pages_of_the_root_are_spelt_and_linked():
    (spelling,) = (c for c in make_commands("check") if "codespell" in c)
    pages = {path.name for path in ROOT.glob("*.md")}
    assert pages >= {"README.md", "CONTRIBUTING.md", "SECURITY.md"}
    assert pages <= set(spelling.split())
