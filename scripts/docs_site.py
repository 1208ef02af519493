"""The parts of the docs that are made from the code; a hook of ``properdocs build``.

The command-line reference comes from the application itself, the API reference from
the public names of :mod:`gelato`, and the tour from ``examples/tour.py``: none of
them can fall behind. Links of pages to files outside ``docs/`` work on the site too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from properdocs.config.defaults import ProperDocsConfig
from properdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent

# Title, what it is for, the modules whose public names belong here (a prefix is
# enough), and names that one meets as results or errors of the public ones.
API: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "graph": (
        "Graphs and data",
        "What a graph is, and the ways into one.",
        ("gelato.graph", "gelato.io", "gelato.datasets"),
        (),
    ),
    "splits": (
        "Splits",
        "Which edges are held out, so that a ranking can be checked.",
        ("gelato.splits",),
        ("gelato.splits.split_many",),
    ),
    "models": (
        "Models",
        "Every predictor, by name; and what all of them can do.",
        ("gelato.models",),
        ("gelato.models.base.Model",),
    ),
    "evaluation": (
        "Evaluation",
        "Held-out links ranked among all pairs that are not links.",
        ("gelato.ranking",),
        (),
    ),
    "prediction": (
        "Prediction",
        "What `model.predict` takes, and the table that it returns.",
        ("gelato.predict.prediction", "gelato.predict.links"),
        (
            "gelato.predict.prediction.make_prediction",
            "gelato.predict.prediction.Prediction",
        ),
    ),
    "explanation": (
        "Explanation",
        "What `model.explain` returns: a score, walk by walk.",
        ("gelato.explain.pair", "gelato.explain.explanation"),
        (
            "gelato.explain.pair.explain_pair",
            "gelato.explain.explanation.Explanation",
            "gelato.explain.explanation.Walk",
            "gelato.explain.explanation.WalkEdge",
        ),
    ),
    "comparison": (
        "Comparison",
        "Several models on the same splits.",
        ("gelato.comparison",),
        (),
    ),
    "tuning": (
        "Choosing and tuning",
        "Which model and which parameters suit a graph.",
        ("gelato.choosing", "gelato.tuning"),
        ("gelato.choosing.Choice",),
    ),
    "storage": (
        "Storage",
        "Run folders: a model, its graph and its split as plain data.",
        ("gelato.models.registry", "gelato.storage"),
        ("gelato.storage.Run", "gelato.storage.read_run", "gelato.storage.save_run"),
    ),
    "errors": (
        "Errors",
        "One family: what was seen, what was expected, what to do.",
        ("gelato.errors",),
        (),
    ),
    "more": ("More", "Further public names.", (), ()),
}

# Pages that may not exist yet; those that do go into the navigation.
OPTIONAL = ("tuning.md", "scaling.md")


# ------------------------------------------------------------------ events of a build
def on_config(config: ProperDocsConfig) -> ProperDocsConfig:
    """Complete the navigation with the pages that exist."""
    docs = Path(config.docs_dir)
    nav = config.nav or []
    models = sorted(docs.glob("models/*.md"))
    _fill(nav, "Model cards", [f"models/{page.name}" for page in models])
    _fill(nav, "API", [{API[key][0]: f"api/{key}.md"} for key in api_groups()])
    config.nav = _existing(nav, docs)
    listed = set(_pages(config.nav))
    spare = [page.relative_to(docs).as_posix() for page in sorted(docs.rglob("*.md"))]
    left = [page for page in spare if page not in listed]
    if left:
        config.nav.append({"More": left})
    return config


def on_files(files: Files, config: ProperDocsConfig) -> Files:
    """Add the generated pages, and files of the repository that pages show."""
    for path, text in generated_pages().items():
        files.append(File.generated(config, path, content=text))
    for page in sorted(Path(config.docs_dir).rglob("*.md")):
        for target in outside_links(page, Path(config.docs_dir)):
            path = f"repository/{target.relative_to(ROOT).as_posix()}"
            if target.is_file() and files.get_file_from_path(path) is None:
                files.append(File.generated(config, path, abs_src_path=str(target)))
    return files


def on_page_markdown(
    markdown: str, *, page: Any, config: ProperDocsConfig, **_: Any
) -> str:
    """Point links that leave ``docs/`` at the copies; folders keep only their name."""
    source = page.file.abs_src_path
    if source is None:
        return markdown
    folder = Path(source).parent
    depth = "../" * page.file.src_uri.count("/")

    def moved(found: re.Match[str]) -> str:
        target = _outside(found["target"], folder, Path(config.docs_dir))
        if target is None:
            return found[0]
        if target.is_dir():
            return found["text"].lstrip("!").strip("[]")
        inside = f"{depth}repository/{target.relative_to(ROOT).as_posix()}"
        return f"{found['text']}({inside}{found['anchor'] or ''})"

    return _LINK.sub(moved, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Turn the roles of docstrings (``:func:`x```) into links."""
    return re.sub(
        r":(?:func|class|meth|mod|data|attr|exc):<code>~?([\w.]+)</code>",
        r'<autoref optional identifier="\1"><code>\1</code></autoref>',
        html,
    )


# ------------------------------------------------------------------ generated pages
def generated_pages() -> dict[str, str]:
    """Return the pages that are made from the code, by path."""
    pages = {
        "gallery.md": gallery_page(),
        "reference/cli.md": cli_page(),
        "tutorials/tour.md": tour_page(),
    }
    for key, names in api_groups().items():
        title, lead, _, _ = API[key]
        blocks = "".join(f"::: {name}\n\n" for name in names)
        pages[f"api/{key}.md"] = f"# {title}\n\n{lead}\n\n{blocks}"
    return pages


def api_groups() -> dict[str, list[str]]:
    """Return the documented names of every group that has some."""
    import gelato
    from gelato import errors

    groups: dict[str, list[str]] = {key: [] for key in API}
    for name in gelato.__all__:
        if not name.startswith("_"):
            # Where a name comes from is known without importing what it needs.
            module = gelato._PUBLIC[name]
            file = ROOT / "src" / module.replace(".", "/") / f"{name}.py"
            # A module of the same name would be documented in place of the function.
            path = f"{module}.{name}.{name}" if file.exists() else f"gelato.{name}"
            groups[_group(module)].append(path)
    for key, (_, _, _, extra) in API.items():
        groups[key] += extra
    known = {name.rpartition(".")[2] for name in groups["errors"]}
    family = [
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.GelatoError)
    ]
    groups["errors"] += [f"gelato.errors.{x}" for x in family if x not in known]
    return {key: names for key, names in groups.items() if names}


def _group(module: str) -> str:
    """Return the group of a module: the one with the longest matching prefix."""
    matches = [
        (len(prefix), key)
        for key, (_, _, prefixes, _) in API.items()
        for prefix in prefixes
        if f"{module}.".startswith(f"{prefix}.")
    ]
    return max(matches)[1] if matches else "more"


def tour_page() -> str:
    """Return ``examples/tour.py`` as a page: its cells, its comments as text."""
    text = (ROOT / "examples" / "tour.py").read_text("utf-8")
    head, *cells = re.split(r"^# %%", text, flags=re.M)
    lead = re.search(r'"""(.*?)\n(.*?)"""', head, flags=re.S)
    assert lead is not None
    parts = [f"# {lead[1].rstrip('.')}\n\n{lead[2].strip()}\n"]
    for cell in cells:
        title, _, body = cell.partition("\n")
        if "[markdown]" in title:
            parts.append(re.sub(r"^# ?", "", body, flags=re.M).strip())
        elif body.strip():
            parts.append(f"```python\n{body.strip()}\n```")
    return "\n\n".join(parts) + "\n"


def gallery_page() -> str:
    """Return the short examples, each with its picture."""
    parts = [
        "# Gallery\n\nEight short scripts and what they draw. They read the embedded "
        "graph or the files of `examples/data`, and the tests run them as they stand."
    ]
    for path in sorted((ROOT / "examples" / "gallery").glob("*.py")):
        lead, code = path.read_text("utf-8").removeprefix('"""').split('"""\n', 1)
        title, text = lead.split("\n", 1)
        parts += [
            f"## {title.rstrip('.')}\n\n{text.strip()}",
            f"![{title}](images/gallery/{path.stem}.svg)",
            f"```python\n{code.strip()}\n```",
        ]
    return "\n\n".join(parts) + "\n"


def cli_page() -> str:
    """Return the reference of every verb and option of the command ``gelato``."""
    import typer

    from gelato.cli.app import build

    root = typer.main.get_command(build())
    lines = [
        "# Command line",
        "",
        "Made from the command itself; `gelato VERB --help` shows the same. Progress "
        "and notes go to stderr, results to stdout. Exit codes: 0 fine, 1 failed, "
        "2 misuse.",
        "",
    ]
    for path, command in _commands(root, ("gelato",)):
        lines += _verb(path, command)
    return "\n".join(lines)


def _commands(
    command: Any, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _commands(child, (*path, name))


def _verb(path: tuple[str, ...], command: Any) -> list[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    panels: dict[str, list[Any]] = {"": []}
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            panel = getattr(parameter, "rich_help_panel", None) or ""
            panels.setdefault(panel, []).append(parameter)
    usage = " ".join([*path, *(_argument(a) for a in arguments), "[OPTIONS]"])
    lines = [f"## {' '.join(path)}", "", _escape(command.help or ""), ""]
    lines += ["```text", usage, "```", ""]
    rows = [(_argument(a), a.help or "") for a in arguments]
    rows += [(_names(p), _help(p)) for p in panels.pop("")]
    lines += _table(rows)
    for title, parameters in panels.items():
        inside = _table([(_names(p), _help(p)) for p in parameters])
        lines += [f'??? note "{title}"', "", *(f"    {row}" for row in inside)]
    return [*lines, ""]


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    return name if parameter.required else f"[{name}]"


def _names(parameter: Any) -> str:
    every = [*parameter.opts, *parameter.secondary_opts]
    value = f" {parameter.metavar}" if parameter.metavar else ""
    return ", ".join(every) + value


def _help(parameter: Any) -> str:
    default = parameter.default
    plain = isinstance(default, str | int | float | Path)
    shown = plain and not isinstance(default, bool) and parameter.show_default
    ending = f" Default: `{default}`." if shown else ""
    return f"{_escape(parameter.help or '')}{ending}"


def _table(rows: list[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    body = [f"| `{name}` | {' '.join(text.split())} |" for name, text in rows]
    return ["| option | meaning |", "|---|---|", *body, ""]


def _escape(text: str) -> str:
    """Return help text as Markdown: a star or bar in it is a star or bar."""
    return re.sub(r"([*_|<\[\]])", r"\\\1", text)


# ------------------------------------------------------------------ navigation, links
_LINK = re.compile(
    r"(?P<text>!?\[[^\]\n]*\])\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
)


def outside_links(page: Path, docs: Path) -> Iterator[Path]:
    """Yield the files outside the docs folder that a page links to."""
    for found in _LINK.finditer(page.read_text("utf-8")):
        target = _outside(found["target"], page.parent, docs)
        if target is not None:
            yield target


def _outside(link: str, folder: Path, docs: Path) -> Path | None:
    """Return what a link points to if that exists outside the docs folder."""
    if re.match(r"[a-z]+:", link):
        return None
    target = Path(os.path.normpath(folder / link))
    inside = target.is_relative_to(docs) or not target.is_relative_to(ROOT)
    return None if inside or not target.exists() else target


def _fill(nav: list[Any], title: str, entries: list[Any]) -> None:
    """Put entries under the section of that title, wherever it is."""
    for item in nav:
        if isinstance(item, dict):
            for name, value in item.items():
                if name == title:
                    item[name] = entries
                elif isinstance(value, list):
                    _fill(value, title, entries)


def _existing(nav: list[Any], docs: Path) -> list[Any]:
    """Return the navigation without optional pages that nobody has written."""
    kept: list[Any] = []
    for item in nav:
        if isinstance(item, dict):
            ((title, value),) = item.items()
            if isinstance(value, list):
                kept.append({title: _existing(value, docs)})
                continue
            item_path = value
        else:
            item_path = item
        if item_path not in OPTIONAL or (docs / item_path).exists():
            kept.append(item)
    return kept


def _pages(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for value in nav.values():
            yield from _pages(value)
    else:
        for item in nav:
            yield from _pages(item)
