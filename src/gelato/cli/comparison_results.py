"""What ``gelato compare`` shows, writes and gives as JSON."""

from __future__ import annotations

from typing import Any

from gelato.cli import numbers
from gelato.cli.comparing import Comparing
from gelato.cli.comparison_plan import KeepOptions
from gelato.cli.inputs import LoadedGraph, describe_split
from gelato.cli.rankings import BIASED, comparison_table
from gelato.cli.screen import Screen, shortened


def finish(
    screen: Screen,
    job: Comparing,
    loaded: LoadedGraph,
    keep: KeepOptions,
    against: str | None,
) -> None:
    """Show and keep what was measured, be it all or what an interruption left."""
    from gelato.comparison import wording
    from gelato.comparison.summary import rank_models

    ranking = rank_models(job.rows, against=against)
    first = job.splits[0]
    title = (
        f"{loaded.name}: {numbers.plural(len(first.test), 'test edge')} among "
        f"{numbers.count(first.num_candidates('test'))} candidate pairs"
    )
    fair = [entry for entry in ranking if not entry["biased"]]
    verdicts = wording.told_apart(fair, shortened)
    table = comparison_table(ranking)
    if not screen.fits(table):
        table = comparison_table(ranking, narrow=True)
    screen.show(f"{title}{_runs_text(ranking)}\n", table)
    if fair:
        said = [*verdicts, wording.covered(fair), wording.unadjusted(fair)]
        if first.kind == "random":  # others are what they are
            said.append(wording.advice(fair))
        screen.show("", *filter(None, said))
    if len(fair) < len(ranking):
        screen.show(
            f"\n{BIASED}: measured against as many random non-edges as edges, which "
            "flatters every model."
        )
    job.show_tuned()
    _keep(screen, job, ranking, keep, loaded.name)
    told = {"covers": wording.covered(fair) if fair else "", "verdicts": verdicts}
    screen.give(_document(job, loaded, told | {"against": against}, ranking))


def _document(
    job: Comparing,
    loaded: LoadedGraph,
    told: dict[str, Any],
    ranking: list[dict[str, Any]],
) -> dict[str, Any]:
    from gelato.comparison.intervals import CONFIDENCE

    return {
        "data": loaded.to_dict(),
        "splits": [describe_split(item) for item in job.splits],
        "budget": None if job.budget is None else str(job.budget),
        "complete": job.stopped is None,
        "confidence": CONFIDENCE,
        **told,
        "ranking": ranking,
        "runs": job.rows,
    }


def _keep(
    screen: Screen,
    job: Comparing,
    ranking: list[dict[str, Any]],
    keep: KeepOptions,
    name: str,
) -> None:
    if keep.table is not None:
        job.write(keep.table)
        screen.line(f"wrote {numbers.plural(len(job.rows), 'row')} to {keep.table}")
    if keep.plot is not None:
        from gelato.drawing import write_figure
        from gelato.report.interval_figure import draw_intervals

        write_figure(
            draw_intervals(ranking, f"{shortened(name)}, 95 % confidence intervals"),
            keep.plot,
        )
        screen.line(f"drew {keep.plot}")


def _runs_text(ranking: list[dict[str, Any]]) -> str:
    counts = {
        "splits": max(entry["splits"] for entry in ranking),
        "seeds": max(entry["seeds"] for entry in ranking),
    }
    several = [f"{number} {noun}" for noun, number in counts.items() if number > 1]
    return f", mean over {' and '.join(several)}" if several else ""
