"""Tables of ranking quality, in percent, and of links; what is biased says so."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from gelato import text
from gelato.cli.console import Console, make_table
from gelato.text import BIASES, LABELS, protocol_mark

if TYPE_CHECKING:
    import polars as pl

    from gelato.ranking import Estimate, Evaluation


BIASED = "BIASED"
ESTIMATE = "ESTIMATE"
SHOWN = 20  # rows on the console; files and JSON get all of them
# What is left out first where a line would be too long.
_OPTIONAL = (
    "attribute_similarity",
    "degrees",
    "common_neighbours",
    "score",
    "expected_precision",
)
_INTERVALS = {"expected_precision": ("expected_low", "expected_high")}
_LINK_TITLES = {
    "score": "score",
    "expected_precision": "exp. prec.",
    "common_neighbours": "common",
    "attribute_similarity": "similarity",
    "degrees": "degrees",
    "reason": "why",
}
_RATIOS = (0.1, 0.5, 1.0)
_KS = (25, 100, 400, 1600, 6400)
# Beside AP with its interval and difference; fewer where names are long.
_BESIDE = ("prec@100%", "hits@100", "auc", "time")
_FEWER = ("prec@100%", "auc")
_TITLES = {"ap": "AP", "mrr": "MRR", "auc": "AUC"}
_STORED = ("ap", "prec@100%", "hits@100", "mrr", "auc")  # of a run folder


def evaluation_table(results: Sequence[Evaluation], *, restricted: bool = False) -> Any:
    """Return metrics as rows; a result and a random order beside it as columns.

    With ``restricted``, not all pairs were candidates, and the title says so.
    """
    exact = "all candidates" if restricted else "all pairs"
    columns = ["in percent"]
    for result in results:
        columns += [_title(result, exact)]
        columns += ["95 % interval"] if result.estimated else []
        columns += ["random order"]
    cells = [_metric_rows(result) for result in results]
    table = make_table(*columns)
    for line in zip(*cells, strict=True):
        row = [Text(line[0][0])]
        for result, (_, value, limits, chance) in zip(results, line, strict=True):
            style = "dim" if result.biased else "bold"
            row += [Text(value, style=style)]
            row += [Text(limits)] if result.estimated else []
            row += [Text(chance, style="dim")]
        table.add_row(*row)
    return table


def node_tables(told: Mapping[str, Any]) -> list[Any]:
    """Return what the lists of single nodes reach, and what they do to degrees."""
    from gelato.ranking.node_metrics import KS

    rows = [
        (name, *(text.percent(told[f"{name.lower()}@{k}"]) for k in KS))
        for name in ("recall", "precision", "VCMPR", "NDCG", "hits")
    ]
    table = make_table("lists of nodes, percent", *(f"@{k}" for k in KS), rows=rows)
    means = f"MAP {text.percent(told['map'])}, MRR {text.percent(told['mrr'])}"
    lists = told["lists"]
    return [
        table,
        f"{means}: means over {text.plural(told['nodes'], 'node')} with held-out edges",
        f"of the {lists['k']} best of each: mean degree {lists['mean_degree']:.1f} (of "
        f"all nodes {lists['graph_mean_degree']:.1f}), {lists['coverage']:.1%} of all "
        f"nodes suggested, Gini {lists['gini']:.2f}",
    ]


def _title(result: Evaluation, exact: str) -> str:
    if result.estimate is not None:
        return f"{ESTIMATE}, rate {result.estimate.rate:g}"
    return result.label or exact


def estimate_text(estimate: Estimate) -> str:
    """Say what an estimate rests on."""
    return (
        f"the positives and {text.plural(estimate.near_pairs, 'near pair')} (at "
        "most two edges apart) were scored exactly, and a random sample of "
        f"{estimate.sampled_pairs:,} of the other {estimate.far_pairs:,} pairs. The "
        "intervals hold the exact values with 95 % confidence."
    )


def _metric_rows(result: Evaluation) -> list[tuple[str, str, str, str]]:
    """Return name, value, interval and the expected value of a random order."""
    chance = text.percent(result.random_ap)
    negatives = result.counts.num_negatives
    expected = {
        "mrr": text.percent(random_mrr(negatives)),
        "auc": "50.00",
        **{f"hits@{k}": text.percent(random_hits(negatives, k)) for k in _KS},
    }
    values = {
        "ap": result.ap,
        **{f"prec@{ratio:.0%}": result.precision_at(ratio) for ratio in _RATIOS},
        **{f"hits@{k}": result.hits_at(k) for k in _KS},
        "mrr": result.mrr,
        "auc": result.auc,
    }
    rows = [
        (
            _TITLES.get(name, name),
            text.percent(value),
            _interval(result, name),
            expected.get(name, chance),
        )
        for name, value in values.items()
    ]
    # Of negatives that were not scored some may tie, too.
    least = "at least " if result.estimated else ""
    tied = f"{least}{text.percent(result.tied_share)}"
    return [*rows, ("positives tied", tied, "", "")]


def _interval(result: Evaluation, name: str) -> str:
    if not result.estimated:
        return ""
    low, high = (text.percent(limit) for limit in result.interval(name))
    return low if low == high else f"{low} to {high}"


def random_hits(negatives: int, k: int) -> float:
    """Return the chance that fewer than k negatives stand above a positive."""
    return min(1.0, k / (negatives + 1))


def random_mrr(negatives: int) -> float:
    """Return the mean of 1 / rank over ranks 1 to negatives + 1."""
    ranks = negatives + 1
    if ranks < 1000:
        return math.fsum(1 / rank for rank in range(1, ranks + 1)) / ranks
    euler = 0.5772156649015329
    return (math.log(ranks) + euler + 0.5 / ranks) / ranks


def metrics_table(metrics: dict[str, dict[str, Any]]) -> Any:
    """Return stored results side by side, a random order beside each."""
    exact = not any(result.get("estimated") for result in metrics.values())
    columns = ["in percent, all pairs" if exact else "in percent"]
    for part, result in metrics.items():
        label = f", {ESTIMATE}" if result.get("estimated") else ""
        columns += [f"{part}{label}", "random order"]
    table = make_table(*columns)
    for row in _STORED:
        cells = [_TITLES.get(row, row)]
        for result in metrics.values():
            cells += [text.percent(_value(result, row)), _chance(result, row)]
        table.add_row(*cells)
    return table


def tell_sizes(console: Console, sizes: Mapping[str, int]) -> None:
    """Say why the values of two parts are not to be compared, if they are not."""
    if len(set(sizes.values())) > 1:
        told = " and ".join(f"{n:,} {part} edges" for part, n in sizes.items())
        console.show(
            f"AP grows with the edges to find ({told}):",
            "compare each with its random order, not with the other.",
        )


def _value(result: dict[str, Any], row: str) -> float:
    kind, _, argument = row.partition("@")
    nested = {"prec": "precision_at", "hits": "hits_at"}
    return float(result[nested[kind]][argument] if argument else result[row])


def _chance(result: dict[str, Any], row: str) -> str:
    negatives = result["negatives"]
    chances = {
        "hits@100": random_hits(negatives, 100),
        "mrr": random_mrr(negatives),
        "auc": 0.5,
    }
    return text.percent(chances.get(row, result["random_ap"]))


def comparison_table(
    entries: Sequence[Mapping[str, Any]], *, narrow: bool = False
) -> Any:
    """Return the ranking table: exact rows, a random order, biased rows in grey.

    Parameters
    ----------
    entries : sequence
        Of :func:`gelato.comparison.summary.rank_models`.
    narrow : bool
        Leave out what is least missed.
    """
    beside = _FEWER if narrow else _BESIDE
    reference = next((e["against"] for e in entries if _is_compared(e)), None)
    paired = [] if reference is None else [f"against {text.shortened(reference)}"]
    titles = [_TITLES.get(name, name) for name in beside]
    table = make_table("in percent", "AP", *paired, *titles)
    for protocol in dict.fromkeys(entry["protocol"] for entry in entries):
        part = [entry for entry in entries if entry["protocol"] == protocol]
        for place, entry in enumerate(part):
            table.add_row(*_comparison_row(entry, paired, beside, best=place == 0))
        if part:
            chance = text.percent(statistics.fmean(e["random_ap"] for e in part))
            mark = protocol_mark(protocol)
            label = f"random{mark}" if mark else "random order"
            expected = {"prec@100%": chance, "auc": "50.00"}
            row = [label, chance, *("" for _ in paired)]
            row += [expected.get(name, "") for name in beside]
            table.add_row(*(Text(cell, style="dim") for cell in row), end_section=True)
    return table


def tell_biases(console: Console, protocols: Sequence[str]) -> None:
    """Say what to know of numbers that are not those of all pairs."""
    for name in dict.fromkeys(protocols):
        if name in BIASES:
            label = LABELS[name].partition(",")[0]
            console.show(f"\n{label}: {BIASES[name]}")


def order_table(orders: Mapping[str, Any]) -> Any:
    """Return the places of models under each protocol, and how orders agree."""
    names = list(orders["protocols"])
    titles = [
        f"{LABELS.get(name, 'all pairs')}: {one['measure'].upper()}"
        for name, one in orders["protocols"].items()
    ]
    table = make_table("place of", *titles)
    for model in orders["models"]:
        places = (orders["protocols"][name]["places"][model] for name in names)
        table.add_row(text.shortened(model), *(f"{place:g}" for place in places))
    agreement = (orders["protocols"][name]["kendall_tau"] for name in names)
    table.add_section()
    cells = ["1" if tau is None else f"{tau:.2f}" for tau in agreement]
    table.add_row("Kendall's tau with the first", *cells)
    return table


def _is_compared(entry: Mapping[str, Any]) -> bool:
    return entry["difference"]["ap"] is not None


def _comparison_row(
    entry: Mapping[str, Any],
    paired: Sequence[str],
    beside: Sequence[str],
    *,
    best: bool,
) -> list[Text]:
    name = text.shortened(entry["model"])
    if entry["biased"]:
        name, style = f"{name}{protocol_mark(entry['protocol'])}", "dim"
    else:
        style = "bold" if best else ""
    mean = entry["mean"]
    cells = [name, text.percent_margin(mean["ap"], entry["interval"]["ap"])]
    if paired:
        cells.append(text.paired_difference(entry["difference"]["ap"]))
    spent = {"time": text.duration(entry["seconds"])}
    cells += [spent.get(key) or text.percent(mean[key]) for key in beside]
    return [Text(cell, style=style) for cell in cells]


def show_links(console: Console, links: pl.DataFrame, file: Path | None) -> None:
    """Print the best links, and where the others are."""
    console.show("", links_table(console, links))
    _tell_true(console, links)
    if links.height > SHOWN and file is None:
        rest = links.height - SHOWN
        console.show("", f"{rest:,} more: write all of them with -o links.csv")


def links_table(console: Console, links: pl.DataFrame, most: int = SHOWN) -> Any:
    """Return the first rows, with as many columns as fit."""
    links = links.head(most)
    told = [name for name in links.columns if links[name].null_count() < links.height]
    some = [name for name in _OPTIONAL if name == "degrees" or name in told]
    fewer = [some[at:] for at in range(len(some) or 1)]
    # A reason says more than the numbers that it is drawn from.
    with_reason = [[*names, "reason"] for names in fewer] if "reason" in told else []
    for names in (*with_reason, *fewer):
        table = _table(links, names)
        if console.fits(table):
            break
    return table


def _table(links: pl.DataFrame, optional: list[str]) -> Any:
    known = "known" in links.columns
    # In the order in which they are read, whichever of them fit.
    shown = [name for name in _LINK_TITLES if name in optional]
    rows = []
    for link in links.iter_rows(named=True):
        row = [
            text.count(link["rank"]),
            text.shortened(link["source"]),
            text.shortened(link["target"]),
            *(_cell(name, link) for name in shown),
        ]
        rows.append([*row, "yes" if link["known"] else ""] if known else row)
    columns = ["rank", "source", "target", *(_LINK_TITLES[name] for name in shown)]
    table = make_table(*columns, *(["an edge"] if known else []), rows=rows, text=3)
    table.columns[0].justify = "right"
    if "reason" in shown:
        table.columns[columns.index("why")].justify = "left"
    return table


def _cell(name: str, link: Mapping[str, Any]) -> str:
    if name == "degrees":
        ends = (text.degree(link[f"{end}_degree"]) for end in ("source", "target"))
        return " and ".join(ends)
    value = link[name]
    if value is None:
        return "-"
    if name in _INTERVALS:
        low, high = (_brief(link[end]) for end in _INTERVALS[name])
        return f"{_brief(value)} % ({low}-{high})"
    if name == "reason":
        return str(value)
    if name == "score":
        return text.score(value)
    return text.count(value) if name == "common_neighbours" else f"{value:.3f}"


def _brief(share: float) -> str:
    """Return a share in percent in two digits, which is more than anybody knows."""
    return "100" if share > 0.995 else f"{100 * share:.2g}"


def _tell_true(console: Console, links: pl.DataFrame) -> None:
    """Say how many links of a list to expect to be true, if that is known of each."""
    columns = ("expected_precision", "expected_low", "expected_high")
    if "known" in links.columns or any(links[x].null_count() for x in columns):
        return
    true, least, most = (f"{links[name].sum():.2g}" for name in columns)
    console.show(
        "",
        f"Expected to be true: {true} of {text.plural(links.height, 'link')} "
        f"({least} to {most}).",
    )


def write_links(console: Console, links: pl.DataFrame, file: Path | None) -> None:
    """Write all links to a file, if one is named."""
    if file is None:
        return
    from gelato.io import write_table

    write_table(links, file)
    console.note(f"wrote {text.plural(links.height, 'link')} to {file}")
