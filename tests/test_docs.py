"""The docs are true: code runs and prints what is shown, links lead somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import gelato

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def script(name):
    """Import a module of scripts/, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


run_docs = script("run_docs")
check_links = script("check_links")


def name_of(page):
    return page.relative_to(DOCS).as_posix()


# ------------------------------------------------------------------ code and output
@pytest.mark.slow
@pytest.mark.parametrize("page", run_docs.pages("python"), ids=name_of)
def test_python_of_a_page_prints_what_is_shown(page):
    assert run_docs.steps(page, "python")
    assert run_docs.compare(page, "python") == []


@pytest.mark.slow
@pytest.mark.parametrize("page", run_docs.pages("sh"), ids=name_of)
def test_commands_of_a_page_print_what_is_shown(page):
    assert run_docs.steps(page, "sh")
    assert run_docs.compare(page, "sh") == []


def test_both_tutorials_are_run_and_show_output():
    ran = {name_of(page): page for page in run_docs.pages("sh")}
    for name in ("tutorials/citeseer.md", "tutorials/own-files.md"):
        shown = [step.output for step in run_docs.steps(ran[name], "sh")]
        assert len(shown) >= 7
        assert all(output is None or output.strip() for output in shown)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("AP  2.65\n", "x\nAP 2.66\n", True),
        ("AP  2.65\n", "AP 3.65\n", False),
        ("AP\n...\nAUC\n", "AP\nMRR\nAUC\n", True),
        ("AUC\nAP\n", "AP\nAUC\n", False),
        ("took 12 s, 3 MB\n", "took 0.4 s, 1,200 MB\n", True),
        ("cn < 0.1 s\n──\n", "cn 0.8 s\n────\n", True),
        ("cos\n", "cos+ac\n", False),
    ],
)
def test_output_is_compared_by_words_and_close_numbers(shown, printed, same):
    assert (run_docs.first_difference(shown, printed) is None) == same


def test_steps_pair_code_with_its_output(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\none\n```\n\n<!-- output: varies 1-2 -->\n\n```text\n1\n```\n\n"
        "```sh\ntwo\n```\n\nwords\n\n```text\nnot output\n```\n"
    )
    first, second = run_docs.steps(page, "sh")
    assert (first.code, first.output, first.varies) == ("one\n", "1\n", True)
    assert (second.code, second.output, second.varies) == ("two\n", None, False)


def test_chosen_lines_are_marked_where_cut():
    text = "a\nb\nc\nd\ne\n"
    assert run_docs._chosen(text, "<!-- output: 1-2 4-4 -->") == "a\nb\n...\nd\n...\n"
    assert run_docs._chosen(text, "") == text


# ------------------------------------------------------------------ numbers, pictures
def test_table_of_protocols_is_what_was_recorded():
    recorded = script("make_doc_figures").recorded()
    text = (DOCS / "evaluation.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\S+)` \| (\S+) \| (\S+) \| (\S+) \|$", text, flags=re.M)
    assert [row[0] for row in rows] == sorted(
        recorded, key=lambda method: -recorded[method]["ap"]
    )
    for method, *shown in rows:
        run = recorded[method]
        exact = [run["ap"], run["biased_ap"], run["auc"]]
        assert np.allclose([float(x) for x in shown], exact, atol=0.02), method


def test_pages_of_networks_show_what_is_recorded():
    reached = script("write_reached")
    assert {page.stem for page in reached.pages()} >= {"README", "leaderboard", "gae"}
    for page in reached.pages():
        assert page.read_text("utf-8") == reached.refreshed(page), (
            f"{page.name}: run scripts/write_reached.py"
        )


def test_thinning_by_nothing_is_the_exact_average_precision():
    split = gelato.split_edges(gelato.load_dataset("citeseer"))
    exact = gelato.evaluate(gelato.make("aa").fit(split), split)
    ratio = exact.counts.num_negatives / exact.counts.num_positives
    thinned_ap = script("make_doc_figures").thinned_ap
    few, every = thinned_ap(exact.counts, np.array([1.0, ratio]))
    assert every == pytest.approx(exact.ap, rel=1e-9)
    biased = gelato.evaluate(gelato.make("aa").fit(split), split, protocol="sampled")
    assert few == pytest.approx(biased.ap, abs=0.03)


def test_example_data_follow_from_the_seed():
    made = script("make_example_data")
    for name, content in made.files().items():
        assert (ROOT / "examples" / "data" / name).read_bytes() == content, name


# ------------------------------------------------------------------ references
@pytest.fixture(scope="module")
def docs_site():
    pytest.importorskip("properdocs", reason="the docs are built with the extra 'docs'")
    return script("docs_site")


def test_every_verb_and_option_is_in_the_reference(docs_site):
    import typer

    from gelato.cli.app import VERBS, build

    text = docs_site.cli_page()
    listed = list(docs_site._commands(typer.main.get_command(build()), ("gelato",)))
    assert len(listed) >= len(VERBS)
    for path, command in listed:
        section = text.split(f"## {' '.join(path)}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            names = [*parameter.opts, *parameter.secondary_opts]
            if parameter.param_type_name == "argument":
                names = [parameter.metavar or parameter.name.upper()]
            for name in names:
                assert name in section, f"{' '.join(path)} {name}"


def test_every_public_name_is_in_one_group_of_the_api(docs_site):
    groups = docs_site.api_groups()
    listed = [name for names in groups.values() for name in names]
    public = {x for x in gelato.__all__ if not x.startswith("_")}
    assert public <= {name.rpartition(".")[2] for name in listed}
    assert len(listed) == len(set(listed))
    assert "gelato.Graph" in groups["graph"]
    assert "gelato.load" in groups["storage"]
    assert "gelato.errors.InputError" in groups["errors"]


def test_tour_is_a_page_with_all_its_code(docs_site):
    page = docs_site.tour_page()
    code = (ROOT / "examples" / "tour.py").read_text("utf-8")
    assert page.startswith("# A tour in Python\n")
    assert "\n# %%" not in page
    for call in ("from_edges", "evaluate", "predict", "explain", "save", "compare"):
        assert page.count(f".{call}(") == code.count(f".{call}(") > 0


# ------------------------------------------------------------------ gallery
GALLERY = sorted((ROOT / "examples" / "gallery").glob("*.py"))


def test_the_gallery_shows_every_example_with_its_picture(docs_site):
    page = docs_site.gallery_page()
    assert len(GALLERY) == page.count("\n## ") == 8
    for example in GALLERY:
        assert example.read_text("utf-8").split('"""\n', 1)[1].strip() in page
        picture = f"images/gallery/{example.stem}.svg"
        assert f"]({picture})" in page
        assert (ROOT / "docs" / picture).stat().st_size > 5_000


@pytest.mark.slow
@pytest.mark.parametrize("example", GALLERY, ids=lambda path: path.stem)
def test_an_example_of_the_gallery_runs_as_it_stands(example, tmp_path):
    shutil.copytree(ROOT / "examples" / "data", tmp_path, dirs_exist_ok=True)
    env = {**os.environ, "MPLBACKEND": "agg"}
    run = [sys.executable, "-W", "error::DeprecationWarning:gelato", example]
    done = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    picture = f"{example.stem}.svg"
    drawn, shown = (
        len([g for g in ElementTree.parse(path).iter() if _is_drawn(g)])
        for path in (tmp_path / picture, DOCS / "images" / "gallery" / picture)
    )
    assert drawn == shown > 3


def _is_drawn(element):
    return element.get("id", "").startswith(("patch_", "line2d_", "Line", "Path"))


# ------------------------------------------------------------------ links
def test_links_of_readme_and_docs_lead_somewhere():
    assert check_links.source_problems() == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "other.md").write_text("# Some `code`, here\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#some-code-here) [c](none.md) [d](other.md#none)\n"
        "`[e](none.md)` [f](https://example.org)\n```sh\n[g](none.md)\n```\n"
    )
    found = check_links.source_problems([page], tmp_path)
    assert found == [
        "page.md: there is no none.md",
        "page.md: other.md has no heading #none",
    ]


def test_what_a_page_loads_from_outside_is_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<script src="https://example.org/a.js"></script><link href="//example.org/b">'
        '<a href="https://example.org">fine</a><a href="c.html">c</a>'
        '<a href="#here">d</a><p id="there">'
    )
    (tmp_path / "a.css").write_text("@import 'https://example.org/font.css';")
    assert check_links.site_problems(tmp_path) == [
        "a.css: loads from the network",
        "index.html: loads https://example.org/a.js",
        "index.html: loads //example.org/b",
        "index.html: there is no c.html",
        "index.html: #here has no such anchor",
    ]


@pytest.mark.slow
def test_site_builds_without_warnings_and_without_the_network(tmp_path, docs_site):
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "properdocs", "build", "--strict", "-q", "-d", site],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert check_links.site_problems(site) == []
    for page in ("index", "api/graph", "reference/cli", "tutorials/tour"):
        assert (site / f"{page}.html").stat().st_size > 5_000
    api = "".join(path.read_text("utf-8") for path in (site / "api").glob("*.html"))
    paths = {path for group in docs_site.api_groups().values() for path in group}
    documented = {path.rpartition(".")[2] for path in paths}
    assert {x for x in gelato.__all__ if not x.startswith("_")} <= documented
    for path in paths:
        assert f'id="{path}"' in api, path
    assert ":func:" not in api
    assert ":class:" not in api
