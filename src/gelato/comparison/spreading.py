"""The runs of a comparison side by side on an engine, one task each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gelato.comparison.budgets import Budget

if TYPE_CHECKING:
    from gelato.comparison.runs import Contender
    from gelato.engines import Engine
    from gelato.splits import EdgeSplit

Item = tuple[int, int, tuple[int | None, ...]]
"""The number of a split, the number of a contender, and the seeds to run."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What all runs of a comparison share; graphs are sent to each machine once."""

    contenders: Sequence[Contender]
    splits: Sequence[EdgeSplit]
    protocols: Sequence[str]
    budget: Budget | None


def spread(
    engine: Engine,
    plan: Plan,
    run_item: Callable[[Plan, Item], list[dict[str, Any]]],
    progress: Callable[[str, int, int], None] | None,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a comparison in the order in which one process would.

    Parameters
    ----------
    engine : Engine
        Where runs happen; models that were passed as objects are fitted there, on
        copies.
    plan : Plan
        What is compared.
    run_item : callable
        Does the runs of an item and returns their rows.
    progress : callable, optional
        Called with (what was finished, runs done, runs in all).
    """
    items = list(_items(plan))
    done, total = 0, sum(len(seeds) for _, _, seeds in items)
    for item, rows in zip(items, engine.map(run_item, plan, items), strict=True):
        yield from rows
        done += len(item[2])
        if progress is not None:
            progress(plan.contenders[item[1]].label, done, total)


def _items(plan: Plan) -> Iterator[Item]:
    for part in range(len(plan.splits)):
        for number, contender in enumerate(plan.contenders):
            seeds = tuple(contender.models)
            # All seeds share what tuning found on a split: one task for all of them.
            if plan.budget is not None:
                yield part, number, seeds
            else:
                yield from ((part, number, (seed,)) for seed in seeds)
