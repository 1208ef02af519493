"""What every predictor can do, in the manner of scikit-learn estimators."""

from __future__ import annotations

import copy
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import polars as pl
import scipy.sparse as sp

from gelato.engines import Engine, use_engine
from gelato.errors import InputError, StoredFileError, UsageError
from gelato.graph import Graph, IntArray, canonical_pairs, find_pairs
from gelato.io import rescale
from gelato.parameters import Dimension, Parametrised
from gelato.predict.prediction import (
    Prediction,
    Validation,
    make_prediction,
    pair_indices,
)
from gelato.ranking import score_pairs
from gelato.ranking.counts import RankCounts
from gelato.ranking.known_scores import Edges, KnownScores
from gelato.ranking.scorers import RowScorer
from gelato.splits import EdgeSplit, as_data
from gelato.storage import Run, save_run
from gelato.text import html_facts

if TYPE_CHECKING:
    from gelato.explain.explanation import Explanation

_NAMED = 3
# Between a column and its value or word, in names of attributes made from text.
_MARKS = ("=", ":")


def align_attributes(known: Graph, graph: Graph) -> Graph:
    """Return a graph with the attributes of another one, by name and in its order.

    Numbers are scaled as they were there. Attributes that were not there before are
    left out. A value or word that no node has any more is an attribute of zeros. All
    of this is noted. A graph that lacks an
    attribute, or without names, is returned as it is.

    Parameters
    ----------
    known : Graph
        What a model was fitted on.
    graph : Graph
        What it is to score.

    Examples
    --------
    >>> known = Graph.from_indices(2, [(0, 1)], attributes=[[1, 2], [3, 4]],
    ...                            attribute_names=["a", "b"])
    >>> newer = Graph.from_indices(2, [(0, 1)], attributes=[[9, 4, 3], [9, 2, 1]],
    ...                            attribute_names=["new", "b", "a"])
    >>> align_attributes(known, newer).attribute_names
    ('a', 'b')
    """
    graph = rescale(graph, known)
    ours, theirs = known.attribute_names, graph.attribute_names
    if ours is None or theirs is None or ours == theirs or graph.attributes is None:
        return graph
    absent = missing_attributes(ours, theirs)
    gone = set(ours) - set(theirs)
    if absent or len(set(ours)) < len(ours) or len(set(theirs)) < len(theirs):
        return graph
    place = {name: at for at, name in enumerate(theirs)}
    columns = np.array([place.get(name, -1) for name in ours], dtype=np.int64)
    extra = [name for name in theirs if name not in set(ours)]
    notes = []
    if extra:
        notes.append(
            f"attributes that the model does not know, left out: {_few(extra)}"
        )
    if gone:
        notes.append(f"attributes that no node has any more, taken as 0: {_few(gone)}")
    return replace(
        graph,
        attributes=_columns(graph.attributes, columns),
        attribute_names=ours,
        notes=(*graph.notes, *notes),
    )


def missing_attributes(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return which names are missing, apart from values of columns that are there."""
    there = set(theirs)
    origins = {origin for name in theirs if (origin := _origin(name))}
    origins |= {f"{name}=" for name in theirs}  # "age=missing", where none is missing
    return [name for name in ours if name not in there and _origin(name) not in origins]


def refuse_other_attributes(known: Graph, graph: Graph) -> None:
    """Raise unless two graphs have the same attributes, in the same order."""
    ours, theirs = known.attribute_names, graph.attribute_names
    named = ours is not None and theirs is not None
    absent = missing_attributes(ours or (), theirs or ()) if named else []
    if absent:
        raise InputError(
            "The model was fitted with attributes that this graph lacks: "
            f"{_few(absent)}.",
            hint="Give a table with the same columns, or fit again.",
        )
    hint = "Give the same attributes in the same order, or fit again."
    if known.num_attributes != graph.num_attributes:
        raise InputError(
            f"The model was fitted with {known.num_attributes:,} attributes per node, "
            f"and this graph has {graph.num_attributes:,}.",
            hint=hint,
        )
    for one, other in zip(ours or (), theirs or (), strict=named):
        if one != other:
            raise InputError(
                f"The model was fitted with the attribute {one!r} where this graph "
                f"has {other!r}.",
                hint=hint,
            )


def carry_split(split: EdgeSplit | None, graph: Graph) -> EdgeSplit | None:
    """Return a split of a newer graph that holds out what the old one held out.

    Edges that have come since are training edges: they are known now. Held-out edges
    that are gone are gone; without any validation edge there is no split.
    """
    if split is None or not len(split.valid):
        return None
    valid, test = (_found(split.graph, graph, x) for x in (split.valid, split.test))
    if not len(valid):
        return None
    held = np.concatenate([valid, test])
    train = np.ones(graph.num_edges, dtype=bool)
    train[find_pairs(graph.edges, held, graph.num_nodes)] = False
    if not train.any():
        return None
    return EdgeSplit(graph, graph.edges[train], valid, test, kind=split.kind)


def _found(old: Graph, graph: Graph, pairs: IntArray) -> IntArray:
    """Return the pairs of an old graph that are edges of another, as its indices."""
    ids = old.node_ids[pairs].tolist()
    ends = [(graph.find(a), graph.find(b)) for a, b in ids]
    there = [(a, b) for a, b in ends if a is not None and b is not None]
    moved = np.array(there, dtype=np.int64).reshape(-1, 2)
    moved = canonical_pairs(moved, directed=graph.directed)
    return moved[find_pairs(graph.edges, moved, graph.num_nodes) >= 0]


def _columns(attributes: Any, columns: IntArray) -> Any:
    """Return columns of a matrix, zeros where the number is negative."""
    there = columns >= 0
    if not sp.issparse(attributes):
        chosen = np.zeros((attributes.shape[0], len(columns)), dtype=attributes.dtype)
        chosen[:, there] = attributes[:, columns[there]]
        return chosen
    source, target = columns[there], np.flatnonzero(there)
    shape = (attributes.shape[1], len(columns))
    ones = np.ones(len(source), dtype=attributes.dtype)
    return sp.csr_array(attributes @ sp.csr_array((ones, (source, target)), shape))


def _origin(name: str) -> str:
    """Return the column that a value or word comes from, with its mark; or nothing."""
    cuts = [at for mark in _MARKS if (at := name.find(mark)) > 0]
    return name[: min(cuts) + 1] if cuts else ""


def _few(names: Iterable[str]) -> str:
    listed = sorted(names)
    rest = len(listed) - _NAMED
    shown = ", ".join(map(repr, listed[:_NAMED]))
    return shown if rest <= 0 else f"{shown} and {rest:,} more"


logger = logging.getLogger(__name__)


@runtime_checkable
class Learner(Protocol):
    """Anything that can be fitted, a :class:`Model` or not."""

    def fit(self, data: Any) -> Any:
        """Learn from a graph, or from the training part of a split."""
        ...


def fitted(model: Any, data: Graph | EdgeSplit) -> Any:
    """Return a model fitted to data; what only scores is returned as it is."""
    return model.fit(data) if isinstance(model, Learner) else model


class Model(Parametrised, ABC):
    """A link predictor.

    A subclass declares its parameters as :mod:`gelato.parameters` says, and its other
    facts as class attributes; :meth:`fit` learns, and what it learned ends in an
    underscore. Registry, command line, tuning and tests read the facts here.

    Attributes
    ----------
    undirected_only : bool
        Whether it refuses directed graphs.
    needs_attributes : bool
        Whether it cannot do without node attributes.
    learns_nothing : bool
        Whether scores follow from the known edges alone: whatever was known before.
    trains_by_epoch : bool
        Whether ``fit`` takes a folder and tells of epochs and steps: see
        :class:`gelato.models.trained.TrainedModel`.
    fits_in_parts : bool
        Whether ``fit`` takes a folder that keeps its parts and tells of them: see
        :class:`gelato.models.stack.Stack`.
    search_space : dict
        Values that :func:`gelato.tune` tries, by parameter, in the order of a line
        search: a tuple, or a :class:`gelato.parameters.Dimension`.
    tuning_defaults : dict
        What a tuning sets otherwise than the model's defaults.
    presets : dict or None
        Parameters by graph of the paper; None if it gives none for this model.
    later_parameters : tuple of str
        Those that came after the first release: at their defaults they tell nothing
        apart, so that what was begun before goes on.
    notes_ : tuple of str
        What people should know of a fitted model.
    training_ : Training or None
        What came of a training by epochs.
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    undirected_only: ClassVar[bool] = False
    needs_attributes: ClassVar[bool] = False
    learns_nothing: ClassVar[bool] = False
    trains_by_epoch: ClassVar[bool] = False
    fits_in_parts: ClassVar[bool] = False
    search_space: ClassVar[Mapping[str, Dimension | Sequence[Any]]] = {}
    tuning_defaults: ClassVar[Mapping[str, Any]] = {}
    presets: ClassVar[dict[str, dict[str, Any]] | None] = None
    later_parameters: ClassVar[tuple[str, ...]] = ()

    graph_: Graph
    split_: EdgeSplit | None
    notes_: tuple[str, ...] = ()
    training_: Any = None
    # How the validation edges rank, once it has been counted: for expected precision.
    validation_counts_: RankCounts | None = None
    # Set by with_graph: whoever names a graph means all of its edges.
    over_newer_graph_: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A class of one's own may leave out what only tables and messages show.
        if not cls.name:
            cls.name = cls.__name__
        if not cls.summary:
            cls.summary = (cls.__doc__ or "a model of your own").strip().split("\n")[0]

    def score(self, split: EdgeSplit | None = None) -> float:
        """Return the average precision of a split's test edges among all pairs.

        Parameters
        ----------
        split : EdgeSplit, optional
            Default: the one that the model was fitted on.
        """
        from gelato.ranking import evaluate

        known = self.split_ if split is None and self._fitted_graph() else split
        if known is None:
            raise UsageError(
                "The model was fitted on all edges: none is held out to score it by.",
                hint="Fit it on a split: model.fit(gelato.split_edges(graph)).",
            )
        return evaluate(self, known).ap

    def _repr_html_(self) -> str:
        rows = [("what", self.summary)]
        rows += [(name, str(value)) for name, value in self.get_params().items()]
        graph = getattr(self, "graph_", None)
        rows.append(("fitted on", "nothing yet" if graph is None else repr(graph)))
        if graph is not None and self.split_ is not None:
            rows.append(("split", repr(self.split_)))
        return html_facts(f"model {self.name}", rows)

    def fit(self, data: Graph | EdgeSplit) -> Self:
        """Learn from a graph, or from the training part of a split.

        Parameters
        ----------
        data : EdgeSplit, Graph, or whatever ``gelato.read_graph`` reads
            Known edges. Of a split only the training edges (and, for choosing an
            epoch, the validation edges) are used; predictions later walk over all.
        """
        data = as_data(data)
        self.split_ = data if isinstance(data, EdgeSplit) else None
        self.graph_ = data.graph if isinstance(data, EdgeSplit) else data
        self.validation_counts_, self.over_newer_graph_ = None, False
        if self.undirected_only:
            self.graph_.require_undirected(f"{self.summary} ({self.name})")
        return self

    def telling_params(self) -> dict[str, Any]:
        """Return the parameters that tell what was begun from something else."""
        usual = self.parameter_defaults()
        return {
            name: value
            for name, value in self.get_params().items()
            if name not in self.later_parameters or value != usual[name]
        }

    @abstractmethod
    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known."""

    def with_graph(self, graph: Graph) -> Self:
        """Return this fitted model over a newer graph; nothing is learned again.

        Use it when edges arrive after training: predictions of the returned model
        start from the edges of ``graph``. It may have new nodes; a model that uses
        attributes then needs the same columns of attributes for them (in any order;
        new columns are left out, with a note in the graph's notes). Edges that were
        held out for validation still tell which precision to expect.

        Parameters
        ----------
        graph : Graph
            All edges that are known now, old ones included.

        Examples
        --------
        >>> from gelato.models.heuristic import CommonNeighbours
        >>> model = CommonNeighbours().fit(Graph.from_indices(3, [(0, 1)]))
        >>> newer = model.with_graph(Graph.from_indices(3, [(0, 1), (1, 2)]))
        >>> newer.score_pairs([(0, 2)]).tolist()
        [1.0]
        """
        known = self._fitted_graph()
        if graph.directed != known.directed:
            kinds = ["undirected", "directed"]
            raise InputError(
                f"The model was fitted on {kinds[known.directed]} edges, and the new "
                f"graph is {kinds[graph.directed]}.",
                hint="Read both alike, or fit again.",
            )
        newer = copy.copy(self)
        newer.graph_ = align_attributes(known, graph)
        newer.split_ = carry_split(self.split_, newer.graph_)
        newer.over_newer_graph_ = True
        newer.validation_counts_ = None
        return newer

    def enhanced_adjacency(self, graph: Graph) -> sp.csr_array | None:
        """Return the weights that walks run over, where a model changes them."""
        return None

    def predict(
        self,
        *,
        top: int | None = None,
        per_node: int | None = None,
        pairs: Any = None,
        nodes: Sequence[Hashable] | None = None,
        **options: Any,
    ) -> pl.DataFrame:
        """Return a ranked table of links, from all known edges.

        See :func:`gelato.predict.prediction.make_prediction` for the arguments; notes
        on the result are logged.
        """
        asked = {"top": top, "per_node": per_node, "pairs": pairs, "nodes": nodes}
        made = self.prediction(**asked, **options)
        for note in made.notes:
            logger.info(note)
        return made.table

    def prediction(
        self, *, engine: Engine | str | None = None, **options: Any
    ) -> Prediction:
        """Return the table of :meth:`predict` together with notes for people.

        Where the model was fitted on a split, its validation edges tell the expected
        precision of every rank. ``engine`` is as for :func:`gelato.evaluate`.
        """
        graph = self._fitted_graph()
        known = None
        if self.split_ is not None and len(self.split_.valid):
            known = Validation(self, self.split_, self.validation_counts_)
            options.setdefault("validation", known)
        with use_engine(engine):
            made = make_prediction(self.scorer(graph), graph, **options)
        if known is not None and options["validation"] is known:
            self.validation_counts_ = known.counts
        return made

    def explain(self, u: Hashable, v: Hashable, **options: Any) -> Explanation:
        """Return why a pair scores what it scores, walk by walk.

        See :func:`gelato.explain.pair.explain_pair`.
        """
        from gelato.explain.pair import explain_pair

        return explain_pair(self, self._fitted_graph(), u, v, **options)

    def score_pairs(self, pairs: Any, *, edges: Edges | None = None) -> KnownScores:
        """Return the scores of pairs of node ids.

        Parameters
        ----------
        pairs : pairs of node ids, or a table of them
        edges : {"train", "all"}, optional
            Which edges are known: see :meth:`score_rows`.
        """
        graph, walked = self._known(edges)
        indices = pair_indices(graph, pairs)
        scores = score_pairs(self.scorer(graph), indices, graph.num_nodes)
        return KnownScores.of(scores, walked)

    def score_rows(self, rows: IntArray, *, edges: Edges | None = None) -> KnownScores:
        """Return scores of rows (node indices) with all nodes.

        Parameters
        ----------
        rows : array of int
            Node indices.
        edges : {"train", "all"}, optional
            Which edges are known. By default the training edges for a model that was
            fitted on a split, so that the scores may be evaluated, and all edges for
            one that was fitted on a graph. ``predict`` and ``explain`` take all.

        Returns
        -------
        KnownScores
            An array that knows which edges it comes from; :func:`gelato.evaluate`
            refuses those that have seen its answers.
        """
        graph, walked = self._known(edges)
        return KnownScores.of(self.scorer(graph).score_rows(rows), walked)

    def _known(self, edges: Edges | None) -> tuple[Graph, str]:
        """Return the graph whose edges are walked on, and a mark for its scores."""
        graph = self._fitted_graph()
        if edges not in (None, "train", "all"):
            raise UsageError(
                f"edges is {edges!r}, which is not a part of the known edges.",
                hint='Use "train" (the training edges of the split) or "all".',
            )
        held_out = self.split_ is not None and not self.over_newer_graph_
        if edges == "all" or (edges is None and not held_out):
            return graph, "all"
        if self.split_ is None:
            raise UsageError(
                "The model was fitted on a graph: it has no training edges apart.",
                hint='Fit it on a split, or leave out edges="train".',
            )
        return self.split_.train_graph, self.split_.fingerprint

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        metrics: dict[str, Any] | None = None,
    ) -> Path:
        """Write the model as a folder of plain data; :func:`gelato.load` reads it.

        A model of your own has to be registered, so that it can be loaded again.
        """
        from gelato.models.registry import model_names

        if self.name not in model_names():
            raise UsageError(
                f"{self.name!r} is not registered: nothing could load it again.",
                hint=f'Put @gelato.register("{self.name}") before the class.',
            )
        run = Run(
            model=self.name,
            parameters=self.get_params(),
            graph=self._fitted_graph(),
            split=self.split_,
            metrics=metrics or {},
            validation=self.validation_counts_,
        )
        self._store(run)
        if self.over_newer_graph_:
            run.facts["over_newer_graph"] = True
        return save_run(folder, run)

    def _store(self, run: Run) -> None:
        """Add what was learned to a run that is about to be saved."""

    def _restore(self, run: Run) -> None:
        """Take back what :meth:`_store` added; graph and split are set already."""
        if run.tensors:
            raise StoredFileError(
                f"The folder holds weights, but {self.name!r} learns nothing.",
                hint="The files of the folder do not belong together.",
            )

    def _fitted_graph(self) -> Graph:
        graph = getattr(self, "graph_", None)
        if graph is None:
            raise UsageError(
                f"{type(self).__name__} has not been fitted.",
                hint="Call fit(graph) or fit(split) first; a fit of your own begins "
                "with super().fit(data).",
            )
        return graph  # type: ignore[no-any-return]
