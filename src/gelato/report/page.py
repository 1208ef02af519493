"""A summary as one offline HTML page, as Markdown, or as JSON; nothing is computed.

Ids and texts of a summary come from outside: the templates escape all of them, what is
embedded as data cannot end its element, and the page's own policy admits no script but
the one that is written here and nothing from the network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gelato.errors import UsageError
from gelato.io import write_text_atomic
from gelato.report import charts
from gelato.report.describe import reading_text
from gelato.report.verdicts import LONGEST, comparison_verdict, run_verdict
from gelato.text import (
    count,
    paired_difference,
    percent,
    percent_margin,
    plural,
    printable,
    protocol_mark,
    score,
    short_percent,
    shortened,
)

_LINKS = 20
_score = partial(score, digits=4)
_shown = partial(shortened, most=LONGEST)
_COLUMNS = ("ap", "prec@100%", "hits@100", "auc")


def to_markdown(summary: dict[str, Any]) -> str:
    """Return a summary as Markdown; ids cannot become markup or HTML."""
    maker = _comparison if summary["kind"] == "comparison" else _run
    return "\n".join(maker(summary)) + "\n"


def inert(value: Any) -> str:
    """Return text in which nothing means anything to Markdown or HTML."""
    return _escaped(_shown(value))


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|>~-])", r"\\\1", text)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| --- |{' ---: |' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _notes(s: dict[str, Any]) -> list[str]:
    """Return the notes on the graph and the model, but what reading tells anyway."""
    told = ("dropped ", "merged ") if s["data"].get("reading") else ()
    own = [note for note in s["data"]["notes"] if not note.startswith(told)]
    return [*own, *s["notes"]]


def _run(s: dict[str, Any]) -> Iterator[str]:
    yield f"# {inert(s['name'])}: {inert(s['model']['name'])}"
    yield ""
    yield run_verdict(s)
    yield ""
    data, split = s["data"], s["split"]
    yield (
        f"{plural(data['nodes'], 'node')}, {plural(data['edges'], 'edge')}, "
        f"{plural(data['attributes']['count'], 'attribute')}, "
        f"{plural(data['components'], 'component')}, "
        f"{plural(data['isolated'], 'node')} without an edge."
    )
    yield reading_text(data.get("reading"))
    yield from (f"Note: {_escaped(printable(note))}." for note in _notes(s))
    if split is not None:
        yield (
            f"Split {split['fingerprint']}: {split['train']:,} training, "
            f"{split['valid']:,} validation, {split['test']:,} test edges."
        )
    if s["choice"] is not None:
        reason = _escaped(printable(s["choice"]["reason"]))
        yield f"Chosen by the validation edges: {reason}."
    yield ""
    if s["ranking"] is not None:
        yield from _measured(s)
    yield "## Predicted links"
    yield ""
    yield from _table(
        ("rank", "source", "target", "score", "expected precision"),
        [
            (
                str(link["rank"]),
                inert(link["source"]),
                inert(link["target"]),
                _score(link["score"]),
                short_percent(link["expected_precision"]),
            )
            for link in s["prediction"]["links"][:_LINKS]
        ],
    )
    yield "## How to reproduce"
    yield ""
    # Indented code: no run of backticks in a name can end it.
    yield f"    {printable(s['reproduce']['command'])}"


def _measured(s: dict[str, Any]) -> Iterator[str]:
    yield "## Ranking (percent, every non-edge)"
    yield ""
    rows = [
        (
            inert(row["model"]) + (", BIASED sample" if row["biased"] else ""),
            *(percent(row[key]) for key in _COLUMNS),
            f"{row['seconds']:.2f}",
        )
        for row in s["ranking"]["rows"]
    ]
    yield from _table(("method", "AP", "prec@100%", "hits@100", "AUC", "seconds"), rows)
    if s["expected"] is not None:
        yield "## Where to cut"
        yield ""
        cuts = [
            (short_percent(cut["at_least"]), count(cut["k"]))
            for cut in s["expected"]["cut_offs"]
        ]
        yield from _table(("expected precision at least", "best links"), cuts)
    if s["reliability"] is not None:
        promised = [
            (
                short_percent(part["expected"]),
                short_percent(part["observed"]),
                f"{short_percent(part['low'])} to {short_percent(part['high'])}",
                count(part["pairs"]),
            )
            for part in s["reliability"]
        ]
        header = ("precision promised of a link", "came true", "95 % interval", "pairs")
        yield from _table(header, promised)
    for title, key in (("degree", "by_degree"), ("distance", "by_distance")):
        yield f"## Found, by {title}"
        yield ""
        rows = [
            (bucket["name"], f"{bucket['edges']:,}", short_percent(bucket["recall"]))
            for bucket in s["where"][key]
        ]
        yield from _table((title, "held-out edges", "found"), rows)


def _comparison(s: dict[str, Any]) -> Iterator[str]:
    yield "# Comparison"
    yield ""
    yield comparison_verdict(s)
    yield ""
    rows = [
        (
            inert(entry["model"]) + protocol_mark(entry["protocol"]),
            str(entry["runs"]),
            percent_margin(entry["mean"]["ap"], entry["interval"]["ap"]),
            paired_difference(entry["difference"]["ap"]),
            *(percent(entry["mean"][k]) for k in _COLUMNS[1:]),
        )
        for entry in s["ranking"]
    ]
    against = f"against {inert(s['against'])}"
    head = ("method", "runs", "AP", against, "prec@100%", "hits@100", "AUC")
    yield from _table(head, rows)
    read = [reading_text(s["reading"])] if s["reading"] else []
    for line in [*s["verdicts"], *s["meaning"], *read]:
        yield f"- {_escaped(line)}"


SUFFIXES = (".html", ".md", ".json")
METRICS = ("ap", "prec@100%", "hits@100", "auc")
_LINK_COLUMNS = (
    *("rank", "source", "target", "score", "expected_precision"),
    *("common_neighbours", "attribute_similarity", "source_degree", "target_degree"),
)
_SECTIONS = {
    "data": "Data",
    "ranking": "Ranking",
    "curves": "Curves",
    "scores": "Scores",
    "heat_maps": "Heat maps",
    "prediction": "Links",
    "where": "Where it works",
    "training": "Training",
    "reproduce": "Reproduce",
}
_ANCHORS = {"heat_maps": "maps", "prediction": "predicted"}

__all__ = ["SUFFIXES", "to_html", "to_json", "to_markdown", "write_report"]


def to_html(summary: dict[str, Any]) -> str:
    """Return a summary as a page that needs nothing but a browser."""
    environment = _environment()
    if summary["kind"] == "comparison":
        given = _comparison_parts(summary)
        return environment.get_template("comparison.html.j2").render(given)
    return environment.get_template("run.html.j2").render(_run_parts(summary))


def to_json(summary: dict[str, Any]) -> str:
    """Return a summary as a JSON document."""
    return json.dumps(summary, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def write_report(summary: dict[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write a summary as ``.html``, ``.md`` or ``.json``, whole or not at all."""
    makers = {".html": to_html, ".md": to_markdown, ".json": to_json}
    maker = makers.get(Path(path).suffix.lower())
    if maker is None:
        raise UsageError(
            f"{path}: a report cannot be written as {Path(path).suffix!r}.",
            hint=f"Choose one of: {', '.join(SUFFIXES)}.",
        )
    return write_text_atomic(path, maker(summary))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("gelato.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "pct": short_percent,
        "hundredths": percent,
        "count": count,
        "score": _score,
        "shown": _shown,
        "whole": printable,
        "spread": percent_margin,
        "difference": paired_difference,
    }
    return made


def _own_file(name: str) -> str:
    """Return a file of this package that is put into pages as it is."""
    loader = _environment().loader
    assert loader is not None
    return loader.get_source(_environment(), name)[0]


def _shared_parts(summary: dict[str, Any]) -> dict[str, Any]:
    script = _own_file("page.js")
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return {
        "s": summary,
        "style": Markup(_own_file("style.css")),  # noqa: S704 - our own file
        "script": Markup(script),  # noqa: S704 - our own file
        "script_hash": f"sha256-{base64.b64encode(digest).decode('ascii')}",
        "columns": METRICS,
    }


def _run_parts(summary: dict[str, Any]) -> dict[str, Any]:
    maps, links = summary["heat_maps"], summary["prediction"]["links"]
    parts = _shared_parts(summary) | {
        "title": f"gelato report: {printable(summary['name'])}",
        "verdict": run_verdict(summary),
        "sections": [
            (_ANCHORS.get(key, key), text)
            for key, text in _SECTIONS.items()
            if summary[key] is not None
        ],
        "reading": reading_text(summary["data"].get("reading")),
        "notes": _notes(summary),
        "degrees": charts.degree_chart(summary["data"]),
        "heats": None if maps is None else charts.heat_images(maps),
        "heat_data": None if maps is None else _heat_data(maps),
        "link_table": {
            "columns": _LINK_COLUMNS,
            "rows": [[link[column] for column in _LINK_COLUMNS] for link in links],
        },
        "training": None,
        "environment": _environment_rows(summary["reproduce"]["environment"]),
    }
    if summary["training"] is not None:
        parts["training"] = charts.training_charts(summary["training"])
    return parts if summary["ranking"] is None else parts | _measured_parts(summary)


def _measured_parts(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the charts of what was measured on held-out edges."""
    expected, where = summary["expected"], summary["where"]
    held = summary["reliability"]
    fair = [row for row in summary["ranking"]["rows"] if not row["biased"]]
    return {
        "best": {key: max(row[key] for row in fair) for key in METRICS},
        "curves": charts.curve_charts(
            summary["curves"], summary["verdict"]["positives"]
        ),
        "histogram": charts.histogram_chart(summary["scores"]["histogram"]),
        "expected": None if expected is None else charts.expected_chart(expected),
        "reliability": charts.reliability_chart(held) if held else None,
        "by_degree": charts.recall_chart(
            "Found, by the lower degree of the two nodes", where["by_degree"], "degree"
        ),
        "few_edges": charts.FEW_EDGES,
        "by_distance": charts.recall_chart(
            "Found, by distance in the training graph", where["by_distance"], "hops"
        ),
    }


def _heat_data(maps: dict[str, Any]) -> dict[str, Any]:
    return {
        "nodes": [_shown(node) for node in maps["nodes"]],
        "maps": [{k: item[k] for k in ("name", "values")} for item in maps["maps"]],
    }


def _environment_rows(environment: dict[str, Any]) -> list[tuple[str, Any]]:
    rows = [(k, v) for k, v in environment.items() if not isinstance(v, dict)]
    return [*rows, *environment.get("packages", {}).items()]


def _comparison_parts(summary: dict[str, Any]) -> dict[str, Any]:
    fair = [entry for entry in summary["ranking"] if not entry["biased"]]
    return _shared_parts(summary) | {
        "title": "gelato report: comparison",
        "verdict": comparison_verdict(summary),
        "sections": [("ranking", "Ranking"), ("runs", "Runs")],
        "best": {key: max(entry["mean"][key] for entry in fair) for key in METRICS},
        "reading": reading_text(summary["reading"]) if summary["reading"] else "",
        "chart": charts.comparison_chart(fair),
    }
