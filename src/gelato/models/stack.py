"""The stack: cheap pair features, combined by trees that learn from hidden edges."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
import scipy.sparse as sp

from gelato import heuristics
from gelato.errors import StoredFileError, UsageError
from gelato.explain.explanation import Explanation
from gelato.explain.pair import explain_pair
from gelato.graph import FloatArray, Graph, IntArray
from gelato.io.locking import locked_folder
from gelato.kernels.chunks import default_threads
from gelato.models.base import Model, refuse_other_attributes
from gelato.parameters import flag, number, parts_of, several, whole
from gelato.predict.prediction import Prediction
from gelato.ranking.evaluate import Part, candidates_of
from gelato.ranking.scorers import RowScorer
from gelato.splits import EdgeSplit, as_data, split_edges
from gelato.stacking.calibration import (
    LinkPrecision,
    Promise,
    fit_and_score_unseen,
    link_precision,
    reliability,
)
from gelato.stacking.features import GROUPS, RIDGE, FeatureTable, features_of, left_out
from gelato.stacking.folds import (
    HIDDEN,
    KEPT,
    MARK,
    Fold,
    KeptTable,
    fold_count,
    kept_folds,
    kept_table,
    make_fold,
)
from gelato.stacking.gate import ENOUGH_EDGES, LEAST_EDGES, Choice, choose
from gelato.stacking.node_attributes import node_attributes
from gelato.stacking.pair_measures import MOST_WHOLE, Measures
from gelato.stacking.ranker import (
    Ranker,
    RankerFit,
    TreeSettings,
    fit_rankers,
    tree_library,
)
from gelato.stacking.reasons import StackExplanation, explained, reasons
from gelato.stacking.scorer import StackScorer, lifted
from gelato.stacking.start import LinearStart
from gelato.storage import Run, make_folder
from gelato.text import notebook_progress

FEWEST_EDGES = 50
"""Training edges below which nothing is learned."""

_FALLBACK = "ac"
_PRECISION_NOTE = (
    "expected_precision: of links scored like this one, the share that was true when "
    f"one edge in {HIDDEN} was hidden, with a 95 % interval"
)
_PLAIN = ("ra", "ac", "ease")
PartReport = Callable[[str, int, int], None]
_PARTS_AFTER_FOLDS = 2  # trees, and the scores of candidates
_TIMED_ROUNDS = 4  # of trees, for a forecast


class Stack(Model):
    """Trees on pair features, learned from hidden edges.

    Some training edges are hidden, everything is computed again without them, and
    gradient-boosted trees learn which features the hidden edges have. Validation
    edges then decide whether the trees, a mixture or a plain score ranks. Candidates
    are ranked by the result, all other pairs below them by autocovariance.

    Parameters
    ----------
    folds : int, optional
        Times that a tenth of the training edges is hidden, 1 to 10; default: until
        there are about 4,000 hidden edges.
    rounds : int
        Trees per ranker; three rankers are averaged.
    gate : bool
        Whether validation edges may mix in, or prefer, a plain score.
    budget : float, optional
        Seconds that fitting may take, about: folds and trees are cut to fit. Results
        then depend on the machine.
    valid : float
        Share of the edges held out for validation when fitted on a bare graph.
    seed : int
        Decides what folds hide, which negatives they draw, and the trees.
    without : str
        For ablations, parts to do without, with commas: groups of features
        (``"attributes, mutual rank"``), ``"ridge walk"``, ``"trees"`` (the regression
        that they start from remains), ``"start"`` or ``"blend"``. Candidates and hidden
        edges stay what they are.

    Attributes
    ----------
    ranker_ : Ranker or None
        The trees; None where a heuristic is used instead.
    choice_ : Choice
        What held-out edges decided.
    saw_validation_ : bool
        Whether these were the validation edges.
    precision_ : LinkPrecision or None
        What scores are worth.
    notes_ : tuple of str
        What people should know.

    Examples
    --------
    >>> Stack(seed=1)
    Stack(seed=1)
    """

    name = "stack"
    summary = "trees on pair features, learned from hidden edges"
    undirected_only = True
    fits_in_parts = True
    search_space: ClassVar = {"rounds": (120, 60, 240), "gate": (True, False)}
    later_parameters = ("without",)

    folds: int | None = whole(None, most=10)
    rounds: int = whole(120)
    gate: bool = flag(True)
    budget: float | None = number(None, above=0)
    valid: float = number(0.05, least=0, below=1)
    seed: int = whole(0, least=0)
    without: str = several((*GROUPS, RIDGE, "trees", "start", "blend"))

    ranker_: Ranker | None
    choice_: Choice
    saw_validation_: bool = False
    precision_: LinkPrecision | None
    notes_: tuple[str, ...] = ()

    def fit(
        self,
        data: Graph | EdgeSplit,
        *,
        folder: str | os.PathLike[str] | None = None,
        resume: bool = False,
        tables: str | os.PathLike[str] | None = None,
        on_part: PartReport | None = None,
    ) -> Self:
        """Learn from hidden training edges; choose by validation edges.

        Parameters
        ----------
        data : Graph or EdgeSplit
            A bare graph holds out ``valid`` of its own edges for validation.
        folder : path, optional
            Where folds are kept once they are computed.
        resume : bool
            Use the folds that the folder keeps of the same fit, if there are any.
        tables : path, optional
            Where the features of all candidates are kept, and taken from: for fits on
            the same training edges that differ in seed or in what they leave out.
        on_part : callable, optional
            Told of (what comes now, parts done, parts in all). Without it notebooks
            show a bar.
        """
        data = as_data(data)
        graph = data.graph if isinstance(data, EdgeSplit) else data
        graph.require_undirected(f"{self.summary} ({self.name})")
        few = graph.num_edges < FEWEST_EDGES
        if isinstance(data, EdgeSplit) or few:
            super().fit(data)
        else:
            super().fit(split_edges(data, valid=self.valid, test=0.0, seed=self.seed))
        self._scorers: dict[str, RowScorer] = {}
        self.ranker_, self.precision_, self.saw_validation_ = None, None, False
        self.choice_, self.notes_ = Choice("plain", _FALLBACK), ()
        train = self.graph_ if self.split_ is None else self.split_.train_graph
        if few or train.num_edges < FEWEST_EDGES:
            self.notes_ = (
                f"{train.num_edges:,} training edges are too few to learn from (at "
                f"least {FEWEST_EDGES}): pairs are ranked by {_FALLBACK}",
            )
            return self
        tree_library()
        place = None if folder is None else make_folder(folder)
        with (
            nullcontext() if place is None else locked_folder(place),
            notebook_progress(f"fitting {self.name}") as shown,
        ):
            if place is not None and not resume:
                (place / MARK).unlink(missing_ok=True)
            self._learn(train, place, tables, on_part or shown or _say_nothing)
        return self

    def _fold_count(self, train: Graph) -> int:
        return fold_count(train.num_edges) if self.folds is None else self.folds

    def _learn(
        self, train: Graph, place: Any, tables: Any, on_part: PartReport
    ) -> None:
        clock = _Clock(self.budget)
        attributes = node_attributes(train)
        count = self._fold_count(train)
        parts = count + _PARTS_AFTER_FOLDS
        folds: list[Fold] = []
        on_part("hiding edges", 0, parts)
        for fold in kept_folds(
            train,
            attributes,
            folds=count,
            seed=int(self.seed),
            folder=place,
            identity=self._identity(train, count),
        ):
            folds.append(fold)
            on_part(f"hiding edges, {len(folds)} of {count} times", len(folds), parts)
            if not clock.has_time_for_fold(len(folds)):
                break
        self.notes_ = _fold_notes(folds, count, attributes is None, train)
        if not any(fold.labels.any() for fold in folds):
            self.notes_ += (
                f"no hidden edge is among the candidates: {_FALLBACK} ranks instead",
            )
            return
        measures = Measures(train, attributes)
        names = tuple(feature.name for feature in features_of(measures))
        settings = clock.settings(self._settings(names), len(folds))
        on_part("growing trees", count, parts)
        run: dict[str, Any] = {"num_nodes": train.num_nodes, "seed": int(self.seed)}
        self.ranker_, unseen = fit_and_score_unseen(folds, names, settings, **run)
        rows = (
            np.concatenate(unseen),
            np.concatenate([fold.labels for fold in folds]),
            np.concatenate([fold.weights for fold in folds]),
        )
        kept_back = self.graph_.num_edges - train.num_edges
        hidden = max(1, sum(fold.hidden for fold in folds)) / len(folds)
        self.precision_ = link_precision(*rows, held_out=kept_back / hidden)
        on_part("scoring candidates", count + 1, parts)
        # Only now: what it holds and what trees need to grow would add up.
        if tables is None:
            table: FeatureTable | KeptTable = FeatureTable.of(measures)
        else:
            with locked_folder(tables, wait=-1):
                kept = make_folder(tables)
                table = kept_table(measures, kept, {"graph": _digest(train)})
        self._choose(table, folds, rows)

    @property
    def is_flattered(self) -> bool:
        """Whether validation edges flatter it, having chosen what is mixed in."""
        return self.saw_validation_ and self.choice_.kind == "blend"

    def fit_seconds(self, split: EdgeSplit) -> float:
        """Forecast how long a fit takes, from one part of it and a few trees.

        That takes a while by itself: about a tenth of the fit.
        """
        tree_library()  # loading it is no part of a fit
        train, began = split.train_graph, time.monotonic()
        count, attributes = self._fold_count(train), node_attributes(train)
        fold = make_fold(train, attributes, 0, folds=count, seed=int(self.seed))
        names = tuple(f.name for f in features_of(Measures(train, attributes)))
        part = time.monotonic() - began
        few = replace(self._settings(names), rounds=_TIMED_ROUNDS, seeds=1)
        times = []
        for rounds in (1, 1 + _TIMED_ROUNDS):
            began = time.monotonic()
            fit_rankers(RankerFit([fold], names, replace(few, rounds=rounds)))
            times.append(time.monotonic() - began)
        tree = max(0.0, times[1] - times[0]) / _TIMED_ROUNDS
        # Three rankers, and two of half of the rows each for the precision of links.
        grown = 4 * self.rounds * tree * count / min(4, default_threads())
        return part * (count + 1) + grown + times[0] * count

    def _settings(self, names: tuple[str, ...]) -> TreeSettings:
        """Return how trees are grown, without what is to be left out."""
        parts = parts_of(self.without)
        return TreeSettings(
            rounds=0 if "trees" in parts else self.rounds,
            start="start" not in parts,
            unused=tuple(left_out(names, parts)),
        )

    def _choose(
        self, table: FeatureTable | KeptTable, folds: list[Fold], rows: tuple[Any, ...]
    ) -> None:
        """Let held-out edges decide, and keep the scores of the training graph.

        Where validation edges are few, hidden edges decide, of which there are more, by
        scores of trees that did not see the rows they score.
        """
        gone = {table.names[at] for at in self._settings(table.names).unused}
        known = tuple(name for name in _PLAIN if name not in gone)
        blends = "blend" not in parts_of(self.without)
        trees, plain = self._candidate_scores(table, known)
        self.choice_ = Choice()
        if self.gate:
            n = table.measures.num_nodes
            valid = (
                np.empty((0, 2), np.int64) if self.split_ is None else self.split_.valid
            )
            answers = np.isin(table.candidates @ [n, 1], valid @ [n, 1])
            self.saw_validation_ = (
                len(valid) >= ENOUGH_EDGES and int(answers.sum()) >= LEAST_EDGES
            )
            if self.saw_validation_:
                self.choice_ = choose(trees, plain, answers, len(valid), blends=blends)
            else:
                columns = {name: table.names.index(name) for name in known}
                self.choice_ = _choose_by_folds(folds, columns, rows, blends)
            self.notes_ += (self.choice_.note,)
        if self.choice_.kind != "plain":
            scorer = self._scorer_of(table, trees, plain.get(self.choice_.plain))
            self._scorers[_digest(table.measures.graph)] = scorer

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known."""
        graph.require_undirected(f"{self.summary} ({self.name})")
        if self.ranker_ is None or self.choice_.kind == "plain":
            return _plain_scorer(self.choice_.plain, graph)
        key = _digest(graph)
        if key not in self._scorers:
            table = self.table(graph)
            names = (self.choice_.plain,) if self.choice_.plain else ()
            trees, plain = self._candidate_scores(table, names)
            made = self._scorer_of(table, trees, plain.get(self.choice_.plain))
            # The training graph and the one at hand: more would only fill memory.
            kept = list(self._scorers.items())[-1:]
            self._scorers = dict([*kept, (key, made)])
        return self._scorers[key]

    def _scorer_of(
        self,
        table: FeatureTable | KeptTable,
        trees: FloatArray,
        plain: FloatArray | None,
    ) -> StackScorer:
        scores = self.choice_.combine(trees, plain)
        graph = table.measures.graph
        rest = heuristics.autocovariance(graph)
        return StackScorer(rest, table.candidates, lifted(scores), trees)

    def table(self, graph: Graph) -> FeatureTable:
        """Return the features of a graph's pairs, as the trees see them."""
        refuse_other_attributes(self._fitted_graph(), graph)
        assert self.ranker_ is not None
        known = "cos" in self.ranker_.names
        attributes = node_attributes(graph) if known else None
        table = FeatureTable.of(Measures(graph, attributes))
        if table.names != self.ranker_.names:
            raise UsageError(
                "The graph has other features than the one that the model was fitted "
                "on.",
                hint="Fit again on this graph.",
            )
        return table

    def _candidate_scores(
        self, table: FeatureTable | KeptTable, names: tuple[str, ...]
    ) -> tuple[FloatArray, dict[str, FloatArray]]:
        """Return the trees' scores of all candidates, and some plain scores."""
        assert self.ranker_ is not None
        pairs = table.candidates
        trees = np.empty(len(pairs))
        plain = {name: np.empty(len(pairs)) for name in names}
        step = max(KEPT, table.measures.num_nodes)
        for start in range(0, len(pairs), step):
            part = slice(start, start + step)
            features = table.rows(part)
            trees[part] = self.ranker_.scores(features)
            for name, scores in plain.items():
                scores[part] = features[:, table.names.index(name)]
        return trees, plain

    def promises(self, split: EdgeSplit, part: Part = "test") -> list[Promise]:
        """Return how far the precision of links holds on held-out edges.

        Of all candidates on the training edges: what ``link_precision`` says of them,
        and how many are held-out edges. Empty where no trees rank.
        """
        scorer = self.scorer(split.train_graph)
        if not isinstance(scorer, StackScorer) or self.precision_ is None:
            return []
        rule, answers = candidates_of(split, part), split.positives(part)
        mine = scorer.find(answers)
        true = np.zeros(len(scorer.pairs), dtype=bool)
        true[mine[mine >= 0]] = True
        assert scorer.trees is not None
        kept = rule.contains(scorer.pairs)
        expected = self.precision_.at(scorer.trees)[0]
        return reliability(expected[kept], true[kept])

    def explain(self, u: Hashable, v: Hashable, **options: Any) -> Explanation:
        """Return what the groups of features add to the score of a pair.

        Below them the walks that join both nodes, as autocovariance counts them.
        """
        graph = self._fitted_graph()
        if self.ranker_ is None or self.choice_.kind == "plain":
            return explain_pair(
                _plain_scorer(self.choice_.plain, graph), graph, u, v, **options
            )
        walks = explain_pair(heuristics.autocovariance(graph), graph, u, v, **options)
        pair = np.sort([[graph.index_of(u), graph.index_of(v)]], axis=1)
        scorer = self.scorer(graph)
        assert isinstance(scorer, StackScorer)
        at = int(scorer.find(pair)[0])
        if at < 0:
            note = (
                "the pair is not among the candidates of the stack: it stands below "
                "them, by autocovariance"
            )
            return replace(walks, notes=(*walks.notes, note))
        return self._explain_candidate(walks, pair, float(scorer.scores[at]))

    def _explain_candidate(
        self, walks: Explanation, pair: IntArray, score: float
    ) -> StackExplanation:
        assert self.ranker_ is not None
        table = self.table(self._fitted_graph())
        features = table.of_pairs(pair)
        parts = self.ranker_.contributions(features)[0]
        worth: tuple[float, ...] = ()
        if self.precision_ is not None:
            known = self.precision_.at(self.ranker_.scores(features))
            worth = tuple(float(value[0]) for value in known)
        if self.choice_.kind == "blend":
            at = table.names.index(self.choice_.plain)
            parts[at] += self.choice_.term(features[:, at].astype(np.float64))[0]
        return explained(
            walks, table, pair, features[0], parts, score=score, worth=worth
        )

    def prediction(self, **options: Any) -> Prediction:
        """Return ranked links with a reason and the precision of each link.

        ``expected_precision`` of the stack's candidates is of links scored like this
        one: which share was true when edges were hidden. Besides the columns of every
        model there is ``reason``.
        """
        made = super().prediction(**options)
        if self.ranker_ is None or self.choice_.kind == "plain":
            return made
        *notes, _ = made.notes
        return replace(
            made, table=self._with_reasons(made.table), notes=(*notes, _PRECISION_NOTE)
        )

    def _with_reasons(self, links: pl.DataFrame) -> pl.DataFrame:
        graph = self._fitted_graph()
        scorer = self.scorer(graph)
        assert isinstance(scorer, StackScorer)
        ends = [
            graph.indices_of(links[name].to_list()) for name in ("source", "target")
        ]
        pairs = np.sort(np.stack(ends, axis=1), axis=1)
        return reasons(
            links, pairs, scorer, self.table(graph), self.ranker_, self.precision_
        )

    def with_graph(self, graph: Graph) -> Self:
        """Return this fitted model over a newer graph; nothing is learned again."""
        newer = super().with_graph(graph)
        refuse_other_attributes(self._fitted_graph(), newer.graph_)
        newer._scorers = {}
        return newer

    def _identity(self, train: Graph, count: int) -> dict[str, Any]:
        return {
            "format": 1,
            "graph": _digest(train),
            "folds": count,
            "seed": int(self.seed),
        }

    def _store(self, run: Run) -> None:
        choice = self.choice_
        run.facts |= {
            "kind": choice.kind,
            "plain": choice.plain,
            "share": choice.share,
            "compared": [name for name, _ in choice.precision],
            "compared_ap": [value for _, value in choice.precision],
            "notes": list(self.notes_),
        }
        if self.ranker_ is not None:
            run.facts["features"] = list(self.ranker_.names)
            run.texts |= {
                f"trees-{i}": text for i, text in enumerate(self.ranker_.texts)
            }
            run.texts["start"] = self.ranker_.start.to_text()
        if self.precision_ is not None:
            for name in ("bounds", "share", "low", "high"):
                values = getattr(self.precision_, name)
                run.facts[f"precision_{name}"] = values.tolist()

    def _restore(self, run: Run) -> None:
        facts = run.facts
        try:
            compared = zip(facts["compared"], facts["compared_ap"], strict=True)
            self.choice_ = Choice(
                facts["kind"], facts["plain"], facts["share"], tuple(compared)
            )
            self.notes_ = tuple(facts["notes"])
            self.ranker_, self.precision_, self._scorers = None, None, {}
            if "features" in facts:
                trees = sorted(name for name in run.texts if name.startswith("trees-"))
                self.ranker_ = Ranker(
                    tuple(run.texts[name] for name in trees),
                    tuple(facts["features"]),
                    LinearStart.from_text(run.texts["start"]),
                )
            if "precision_bounds" in facts:
                kept = ("bounds", "share", "low", "high")
                steps = (np.array(facts[f"precision_{name}"]) for name in kept)
                self.precision_ = LinkPrecision(*steps)
        except (KeyError, ValueError) as error:
            raise StoredFileError(
                f"The folder lacks what a stack needs: {error}.",
                hint="The files of the folder do not belong together.",
            ) from error


def _choose_by_folds(
    folds: list[Fold], columns: dict[str, int], rows: tuple[Any, ...], blends: bool
) -> Choice:
    """Choose by rows of folds: unseen scores, labels and weights."""
    unseen, labels, weights = rows
    plain = {
        name: np.concatenate([fold.features[:, at] for fold in folds]).astype(float)
        for name, at in columns.items()
    }
    hidden = sum(fold.hidden for fold in folds)
    return choose(unseen, plain, labels, hidden, weights, blends=blends)


def _say_nothing(what: str, done: int, total: int) -> None:
    """Tell nobody of a part."""


class _Clock:
    """Cuts folds and trees so that a fit keeps to its budget, about."""

    def __init__(self, budget: float | None) -> None:
        self.budget, self.started = budget, time.monotonic()

    def _spent(self) -> float:
        return time.monotonic() - self.started

    def has_time_for_fold(self, done: int) -> bool:
        """Whether another fold fits, with twice its time left for the rest."""
        if self.budget is None:
            return True
        return self._spent() * (1 + 4 / done) < self.budget

    def settings(self, wanted: TreeSettings, done: int) -> TreeSettings:
        """Return fewer trees where little time is left, with one more fold's spent."""
        if self.budget is None or self._spent() * (1 + 1 / done) < self.budget / 2:
            return wanted
        few = max(20, wanted.rounds // 3)
        return replace(wanted, seeds=1, rounds=min(wanted.rounds, few))


def _plain_scorer(name: str, graph: Graph) -> RowScorer:
    makers: dict[str, Callable[[Graph], RowScorer]] = {
        "ra": heuristics.resource_allocation,
        "ac": heuristics.autocovariance,
        "ease": heuristics.ease,
    }
    return makers[name](graph)


def _fold_notes(
    folds: list[Fold], wanted: int, bare: bool, graph: Graph
) -> tuple[str, ...]:
    hidden = sum(fold.hidden for fold in folds)
    found = sum(int(fold.labels.sum()) for fold in folds)
    notes = [f"learned from {hidden:,} hidden edges ({found:,} among the candidates)"]
    if len(folds) < wanted:
        notes.append(f"the budget was enough for {len(folds)} of {wanted} folds")
    if bare and graph.num_attributes:
        notes.append("attributes are the same for all nodes and were left out")
    if graph.num_nodes > MOST_WHOLE:
        notes.append(
            f"with more than {MOST_WHOLE:,} nodes, the ridge walk and the search for "
            "similar attributes are approximate, and candidates fewer"
        )
    return tuple(notes)


def _digest(graph: Graph) -> str:
    """Return a text that two graphs share only if they score alike."""
    found = hashlib.sha256(graph.edges.tobytes())
    found.update(str(graph.num_nodes).encode())
    for array in (graph.weights, _values(graph)):
        if array is not None:
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _values(graph: Graph) -> Any:
    if graph.attributes is None:
        return None
    attributes: Any = graph.attributes
    return attributes.data if sp.issparse(attributes) else attributes
