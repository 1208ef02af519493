"""The function that people call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

from gelato.errors import GelatoError
from gelato.ranking.evaluate import check_positives, test_candidates
from gelato.splits import EdgeSplit
from gelato.tuning.plan import Plan, check_budget, make_plan
from gelato.tuning.records import TrialRecord
from gelato.tuning.result import Tuned, TuningInterrupted
from gelato.tuning.sitting import Progress, Sitting
from gelato.tuning.spaces import SearchName
from gelato.tuning.study import open_study, require_optuna
from gelato.tuning.trial import blind


def tune(
    name: str,
    split: EdgeSplit,
    *,
    search: SearchName = "line",
    trials: int | None = None,
    seconds: float | None = None,
    metric: str = "prec@100%",
    seed: int = 0,
    study: str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    space: Mapping[str, Any] | None = None,
    prune: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Search for the parameters of a model that rank the validation edges best.

    Only training and validation edges are used: trials get a graph without the test
    edges. A trial of a model that learns nothing is one exact ranking; a training is
    also reported whenever it ranks all pairs, and ended if it is below the median of
    earlier trials at that epoch. Every trial counts, pruned and failed ones too, so
    that the same budget means the same for all models.

    Parameters
    ----------
    name : str
        A registered model.
    split : EdgeSplit
        Its training edges are learned from, its validation edges ranked among all
        pairs; its test edges are not looked at.
    search : {"line", "grid", "free"}
        One parameter at a time, the others at their best so far, until a round changes
        nothing; every combination, in an order drawn by seed (for Gelato the grid of
        the paper); or Optuna's sampler (TPE), which learns from earlier trials.
    trials : int, optional
        Most trials, those of earlier sittings included. Default: until the search
        ends; a free search without any budget makes 20.
    seconds : float, optional
        Time of this sitting. A training that it ends counts with the epochs it had,
        and is run again if the study goes on.
    metric : str
        What is maximised, over all pairs: "prec@100%" as in the paper, "ap", "auc",
        "mrr", "prec@50%", "hits@100", ...
    seed : int
        Seed of the model, of the order of a grid and of drawn values. The same seed
        gives the same trials, in one sitting or several.
    study : path, optional
        File that keeps every trial. If it exists, the search goes on from there; a
        study of another graph, split, model, space or seed is refused, and so is one
        that another process is working on.
    parameters : mapping, optional
        Parameters that are fixed.
    space : mapping, optional
        Values to try by parameter, in place of the model's own, for example
        ``{"t": (2, 3, 4)}``; see also :class:`gelato.tuning.Dimension`.
    prune : bool
        Whether trainings may be ended early.
    threads : int, optional
        Threads of the kernels; results do not depend on it.
    progress : callable, optional
        Told (what is tried, done, in all), in trials, or in seconds where only the
        time is limited.

    Raises
    ------
    GelatoError
        If no trial could be completed.
    TuningInterrupted
        On Ctrl-C, with what the finished trials gave.

    Examples
    --------
    >>> from gelato import load_dataset, split_edges, tune
    >>> split = split_edges(load_dataset("citeseer"))
    >>> tune("ac", split, search="grid").best.parameters  # doctest: +SKIP
    {'t': 3, 'self_loops': 'isolated'}
    """
    require_optuna()
    plan = make_plan(
        name,
        search=search,
        metric=metric,
        seed=seed,
        parameters=parameters,
        space=space,
    )
    return run_plan(
        plan,
        split,
        trials=trials,
        seconds=seconds,
        study=study,
        prune=prune,
        threads=threads,
        progress=progress,
    )


def run_plan(
    plan: Plan,
    split: EdgeSplit,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    study: str | os.PathLike[str] | None = None,
    prune: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Run the trials of a plan; see :func:`tune` for the arguments."""
    check_budget(trials, seconds)
    seen = blind(split)
    check_positives(seen, "valid", test_candidates(seen, "valid"))
    with open_study(
        study,
        plan.identity(seen, prune=prune),
        plan.space,
        search=plan.search,
        seed=plan.seed,
        warmup=plan.warmup(),
        prune=prune,
    ) as opened:
        sitting = Sitting(plan, opened, seen, trials, seconds, threads, progress)
        try:
            sitting.run()
        except KeyboardInterrupt as stop:
            raise TuningInterrupted(sitting.result(split)) from stop
    found = sitting.result(split)
    if found is None:
        _refuse_result(sitting.records)
    return found


def _refuse_result(records: list[TrialRecord]) -> NoReturn:
    failed = [record for record in records if record.state == "failed"]
    if failed:
        raise GelatoError(
            f"No trial could be completed; the first: {failed[0].reason}",
            hint="Fit the model once by itself: gelato fit.",
        )
    raise GelatoError(
        "The time was up before the first trial was complete.",
        hint="Allow more time, or train for fewer epochs.",
    )
