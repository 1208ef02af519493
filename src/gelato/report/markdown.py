"""A summary as Markdown: the numbers of a report, for a README or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from gelato.report import wording

_LINKS = 20
_COLUMNS = ("ap", "prec@100%", "hits@100", "auc")


def to_markdown(summary: dict[str, Any]) -> str:
    """Return a summary as Markdown; ids cannot become markup or HTML."""
    maker = _comparison if summary["kind"] == "comparison" else _run
    return "\n".join(maker(summary)) + "\n"


def inert(value: Any) -> str:
    """Return text in which nothing means anything to Markdown or HTML."""
    return _escaped(wording.shown(value))


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|>~-])", r"\\\1", text)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| --- |{' ---: |' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _run(s: dict[str, Any]) -> Iterator[str]:
    yield f"# {inert(s['name'])}: {inert(s['model']['name'])}"
    yield ""
    yield wording.run_verdict(s)
    yield ""
    data, split = s["data"], s["split"]
    yield (
        f"{wording.count(data['nodes'])} nodes, {wording.count(data['edges'])} edges, "
        f"{wording.count(data['attributes']['count'])} attributes, "
        f"{wording.count(data['components'])} components, "
        f"{wording.count(data['isolated'])} nodes without an edge."
    )
    if split is not None:
        yield (
            f"Split {split['fingerprint']}: {split['train']:,} training, "
            f"{split['valid']:,} validation, {split['test']:,} test edges."
        )
    if s["choice"] is not None:
        yield f"Chosen by the validation edges: {inert(s['choice']['reason'])}."
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
                wording.score(link["score"]),
                wording.percent(link["expected_precision"]),
            )
            for link in s["prediction"]["links"][:_LINKS]
        ],
    )
    yield "## How to reproduce"
    yield ""
    # Indented code: no run of backticks in a name can end it.
    yield f"    {wording.whole(s['reproduce']['command'])}"


def _measured(s: dict[str, Any]) -> Iterator[str]:
    yield "## Ranking (percent, every non-edge)"
    yield ""
    rows = [
        (
            inert(row["model"]) + (", BIASED sample" if row["biased"] else ""),
            *(wording.hundredths(row[key]) for key in _COLUMNS),
            f"{row['seconds']:.2f}",
        )
        for row in s["ranking"]["rows"]
    ]
    yield from _table(("method", "AP", "prec@100%", "hits@100", "AUC", "seconds"), rows)
    if s["expected"] is not None:
        yield "## Where to cut"
        yield ""
        cuts = [
            (wording.percent(cut["at_least"]), wording.count(cut["k"]))
            for cut in s["expected"]["cut_offs"]
        ]
        yield from _table(("expected precision at least", "best links"), cuts)
    for title, key in (("degree", "by_degree"), ("distance", "by_distance")):
        yield f"## Found, by {title}"
        yield ""
        rows = [
            (bucket["name"], f"{bucket['edges']:,}", wording.percent(bucket["recall"]))
            for bucket in s["where"][key]
        ]
        yield from _table((title, "held-out edges", "found"), rows)


def _comparison(s: dict[str, Any]) -> Iterator[str]:
    yield "# Comparison"
    yield ""
    yield wording.comparison_verdict(s)
    yield ""
    rows = [
        (
            inert(entry["model"]) + (", BIASED sample" if entry["biased"] else ""),
            str(entry["runs"]),
            wording.spread(entry["mean"]["ap"], entry["interval"]["ap"]),
            wording.difference(entry["difference"]["ap"]),
            *(wording.hundredths(entry["mean"][k]) for k in _COLUMNS[1:]),
        )
        for entry in s["ranking"]
    ]
    against = f"against {inert(s['against'])}"
    head = ("method", "runs", "AP", against, "prec@100%", "hits@100", "AUC")
    yield from _table(head, rows)
    for line in [*s["verdicts"], *s["meaning"]]:
        yield f"- {_escaped(line)}"
