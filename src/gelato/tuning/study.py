"""A study: the trials so far, in memory or in a file, and the next one.

The only module that knows Optuna (extra ``tune``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from gelato.errors import MissingExtraError, OutputError, StoredFileError
from gelato.io.locking import locked
from gelato.models.registry import facts_of
from gelato.parameters import Dimension
from gelato.tuning.result import TrialRecord
from gelato.tuning.searches import Parameters
from gelato.tuning.spaces import Space

if TYPE_CHECKING:
    import optuna


_BEGINNING = b'{"op_code":'


@contextmanager
def hold_study_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Hold a study file, made if need be, against other processes.

    Raises
    ------
    StoredFileError
        If another process holds it, or it is no study.
    OutputError
        If it cannot be written.
    """
    place = Path(path)
    existed = place.exists()
    try:
        file = place.open("ab+")
    except OSError as error:
        raise OutputError(
            f"The study {place} cannot be written: {error.strerror or error}.",
            hint="Name a file in a folder that you may write to.",
        ) from error
    busy = StoredFileError(
        f"Another process is working on the study {place}.",
        hint="Wait for it to end, or name another study.",
    )
    with file, locked(place, refusal=busy):
        try:
            _mend(file, place)
            yield place
        finally:
            if not existed and place.exists() and place.stat().st_size == 0:
                place.unlink()


def _mend(file: BinaryIO, path: Path) -> None:
    """Cut off an incomplete last line; refuse what is no study."""
    file.seek(0)
    content = file.read()
    whole = content[: content.rfind(b"\n") + 1]
    rest = content[len(whole) :]
    for number, line in enumerate(whole.splitlines(), start=1):
        if not _is_event(line):
            raise StoredFileError(
                f"{path} is no study, or damaged: line {number} is no event.",
                hint="Name a new file.",
            )
    if rest and not (rest.startswith(_BEGINNING) or _BEGINNING.startswith(rest)):
        raise StoredFileError(f"{path} is no study.", hint="Name a new file.")
    if rest:
        file.truncate(len(whole))


def _is_event(line: bytes) -> bool:
    try:
        return line.startswith(_BEGINNING) and isinstance(json.loads(line), dict)
    except ValueError:
        return False


_NAME = "gelato"
_IDENTITY, _OUTCOME = "identity", "outcome"
# So many trials run in full before another one can be below their median, and so many
# are drawn evenly before a free search learns from them.
_UNPRUNED_TRIALS, _EVEN_TRIALS = 4, 5


class LiveTrial:
    """A trial that is running.

    Parameters
    ----------
    trial : optuna.Trial
        As it was asked for.
    parameters : dict
        What it tries.
    """

    def __init__(self, trial: optuna.Trial, parameters: Parameters) -> None:
        self.trial, self.parameters = trial, parameters

    def report(self, epoch: int, value: float) -> bool:
        """Note a validation; tell whether the trial is below the median of others."""
        self.trial.report(value, epoch)
        return bool(self.trial.should_prune())


class Study:
    """Finished trials, and the asking for new ones; see :func:`open_study`.

    Parameters
    ----------
    study : optuna.Study
        Where they are kept.
    space : Space
        What is searched.
    search : {"line", "grid", "free"}
        A free search draws from ranges.
    seed : int
        Of a free search.
    """

    def __init__(
        self, study: optuna.Study, space: Space, search: str, seed: int
    ) -> None:
        self.study, self.space, self.seed = study, space, seed
        self.distributions = {
            name: _distribution(dimension, free=search == "free")
            for name, dimension in space.items()
        }

    def records(self) -> list[TrialRecord]:
        """Return the trials that came to an end of their own, in order."""
        outcomes = (x.user_attrs.get(_OUTCOME) for x in self._finished())
        return [
            TrialRecord(number, **outcome)
            for number, outcome in enumerate(x for x in outcomes if x is not None)
        ]

    def ask(self, proposal: Parameters | Literal["drawn"], number: int) -> LiveTrial:
        """Begin a trial with given parameters, or with drawn ones.

        What is drawn depends on the seed, the trial's number and the trials before,
        not on how often the search was interrupted.
        """
        import optuna

        if proposal == "drawn":
            state = np.random.SeedSequence([self.seed, number]).generate_state(1)
            self.study.sampler = optuna.samplers.TPESampler(
                seed=int(state[0]),
                n_startup_trials=_EVEN_TRIALS,
                multivariate=False,
                # What a killed search left running must not be learned from.
                constant_liar=False,
            )
        else:
            self.study.sampler = _given_sampler(proposal)
        trial = self.study.ask(self.distributions)
        found = trial.params
        tidy = {name: x.tidy(found[name]) for name, x in self.space.items()}
        return LiveTrial(trial, tidy)

    def finish(self, live: LiveTrial, record: TrialRecord) -> None:
        """Keep the outcome of a trial."""
        from optuna.trial import TrialState

        outcome = record.to_dict() | {"reason": record.reason}
        del outcome["number"]
        live.trial.set_user_attr(_OUTCOME, outcome)
        if record.state == "complete":
            self.study.tell(live.trial, record.value)
        else:
            state = {"pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
            self.study.tell(live.trial, state=state[record.state])

    def forget(self, live: LiveTrial) -> None:
        """Give up a trial that was interrupted: a later search runs it again."""
        from optuna.trial import TrialState

        self.study.tell(live.trial, state=TrialState.FAIL)

    def forget_running(self) -> None:
        """Give up what a killed process left running."""
        from optuna.trial import TrialState

        for trial in self.study.get_trials(deepcopy=False):
            if not trial.state.is_finished():
                self.study.tell(trial.number, state=TrialState.FAIL)

    def _finished(self) -> list[optuna.trial.FrozenTrial]:
        trials = self.study.get_trials(deepcopy=False)
        return [trial for trial in trials if trial.state.is_finished()]


@contextmanager
def open_study(
    path: str | os.PathLike[str] | None,
    identity: dict[str, Any],
    space: Space,
    *,
    search: str,
    seed: int,
    warmup: int = 0,
    prune: bool = True,
) -> Iterator[Study]:
    """Open a study, in memory or in a file that no other process may use meanwhile.

    Parameters
    ----------
    path : path, optional
        File to keep it in, and to go on from.
    identity : dict
        What must be equal for a stored study to go on.
    space, search, seed
        See :class:`Study`.
    warmup : int
        Epochs before a trial can be pruned.
    prune : bool
        Whether trials are pruned at all.
    """
    optuna = require_optuna()
    pruner: Any = optuna.pruners.NopPruner()
    if prune:
        pruner = optuna.pruners.MedianPruner(
            n_startup_trials=_UNPRUNED_TRIALS, n_warmup_steps=warmup
        )
    with _quiet_optuna():
        if path is None:
            made = optuna.create_study(direction="maximize", pruner=pruner)
            yield Study(made, space, search, seed)
            return
        with hold_study_file(path) as place:
            made = _stored_study(place, pruner)
            _check_identity(made, identity, path)
            opened = Study(made, space, search, seed)
            opened.forget_running()
            yield opened


def require_optuna() -> Any:
    """Return the package, or say how to get it."""
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("optuna", "tune", "Tuning") from error
    return optuna


def _stored_study(path: Path, pruner: Any) -> optuna.Study:
    import optuna
    from optuna.storages.journal import JournalFileBackend

    try:
        backend = JournalFileBackend(str(path), lock_obj=_HeldAlready())
        storage = optuna.storages.JournalStorage(backend)
        options = {"storage": storage, "study_name": _NAME, "pruner": pruner}
        if not path.stat().st_size:
            return optuna.create_study(direction="maximize", **options)
        return optuna.load_study(**options)
    except (AssertionError, LookupError, TypeError, ValueError) as error:
        raise StoredFileError(
            f"The study {path} cannot be read: {' '.join(str(error).split())}",
            hint="Name a new file.",
        ) from error


def _check_identity(
    study: optuna.Study, identity: dict[str, Any], path: str | os.PathLike[str]
) -> None:
    """Refuse a study of something else; a new one learns what it is of."""
    asked = json.loads(json.dumps(identity))
    stored = study.user_attrs.get(_IDENTITY)
    if stored is None and not study.get_trials(deepcopy=False):
        study.set_user_attr(_IDENTITY, asked)
        return
    if not isinstance(stored, dict):
        raise StoredFileError(
            f"{path} is a study of another program.", hint="Name a new file."
        )
    differing = [k for k in {**stored, **asked} if stored.get(k) != asked.get(k)]
    if differing == ["parameters"] and _only_later(stored, asked):
        return
    if differing:
        raise StoredFileError(
            f"{path} is another study: its {differing[0]} differs.",
            hint="Name another file, or repeat what it was begun with.",
        )


def _only_later(stored: dict[str, Any], asked: dict[str, Any]) -> bool:
    """Tell whether a study lacks nothing but parameters that came after it."""
    facts = facts_of(asked["model"])
    before, now = stored["parameters"], asked["parameters"]
    if not set(now) - set(before) <= set(facts.later_parameters):
        return False
    usual = facts.parameter_defaults()
    return bool({k: before.get(k, usual.get(k)) for k in now} == now)


class _HeldAlready:
    """A lock for single events: this process holds the whole file."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        return None


@contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Keep Optuna from talking on stderr, and leave it as it was."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _distribution(dimension: Dimension, *, free: bool) -> Any:
    from optuna import distributions

    low, high = dimension.low, dimension.high
    if not free or low is None or high is None:
        return distributions.CategoricalDistribution(dimension.values)
    if dimension.is_whole:
        step = int(dimension.step or 1)
        return distributions.IntDistribution(
            int(low), int(high), log=dimension.log, step=step
        )
    return distributions.FloatDistribution(
        low, high, log=dimension.log, step=dimension.step
    )


def _given_sampler(parameters: Parameters) -> Any:
    """Return a sampler that draws nothing."""
    import optuna

    class Given(optuna.samplers.BaseSampler):  # type: ignore[misc]
        def infer_relative_search_space(self, *_: Any) -> dict[str, Any]:
            return {}

        def sample_relative(self, *_: Any) -> dict[str, Any]:
            return {}

        def sample_independent(
            self, study: Any, trial: Any, param_name: str, param_distribution: Any
        ) -> Any:
            return parameters[param_name]

    return Given()
