"""What every predictor can do, in the manner of scikit-learn estimators."""

from __future__ import annotations

import copy
import inspect
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import polars as pl

from gelato.engines import Engine, use_engine
from gelato.errors import InputError, StoredFileError, UsageError
from gelato.explain import explain_pair
from gelato.explanation import Explanation
from gelato.graph import FloatArray, Graph, IntArray
from gelato.models.newer_graphs import align_attributes, carry_split
from gelato.predict import Prediction, Validation, make_prediction, pair_indices
from gelato.ranking import score_pairs
from gelato.ranking.counts import RankCounts
from gelato.ranking.scorers import RowScorer
from gelato.splits import EdgeSplit
from gelato.storage import Run, save_run

logger = logging.getLogger(__name__)


class Model(ABC):
    """A link predictor.

    ``__init__`` of a subclass takes keyword-only parameters and stores them as
    given; :meth:`fit` learns, and what it learned ends in an underscore.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    undirected_only: ClassVar[bool] = False
    graph_: Graph
    split_: EdgeSplit | None
    # How the validation edges rank, once it has been counted: for expected precision.
    validation_counts_: RankCounts | None = None

    def fit(self, data: Graph | EdgeSplit) -> Self:
        """Learn from a graph, or from the training part of a split.

        Parameters
        ----------
        data : Graph or EdgeSplit
            Known edges. Of a split only the training edges (and, for choosing an
            epoch, the validation edges) are used; predictions later walk over all.
        """
        self.split_ = data if isinstance(data, EdgeSplit) else None
        self.graph_ = data.graph if isinstance(data, EdgeSplit) else data
        self.validation_counts_ = None
        if self.undirected_only:
            self.graph_.require_undirected(f"{self.summary} ({self.name})")
        return self

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
        newer.validation_counts_ = None
        return newer

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

        See :func:`gelato.predict.make_prediction` for the arguments; notes on the
        result are logged.
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
        if self.split_ is not None and len(self.split_.valid):
            known = Validation(self, self.split_, self.validation_counts_)
            validation = options.setdefault("validation", known)
            made = make_prediction(self.scorer(graph), graph, **options)
            if validation is known:
                self.validation_counts_ = known.counts
            return made
        with use_engine(engine):
            return make_prediction(self.scorer(graph), graph, **options)

    def explain(self, u: Hashable, v: Hashable, **options: Any) -> Explanation:
        """Return why a pair scores what it scores, walk by walk.

        See :func:`gelato.explain.explain_pair`.
        """
        return explain_pair(self, self._fitted_graph(), u, v, **options)

    def score_pairs(self, pairs: Any) -> FloatArray:
        """Return the scores of pairs of node ids, from all known edges."""
        graph = self._fitted_graph()
        indices = pair_indices(graph, pairs)
        return score_pairs(self.scorer(graph), indices, graph.num_nodes)

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of rows (node indices) with all nodes, from all known edges."""
        return self.scorer(self._fitted_graph()).score_rows(rows)

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        metrics: dict[str, Any] | None = None,
    ) -> Path:
        """Write the model as a folder of plain data; :func:`gelato.load` reads it."""
        run = Run(
            model=self.name,
            parameters=self.get_params(),
            graph=self._fitted_graph(),
            split=self.split_,
            metrics=metrics or {},
            validation=self.validation_counts_,
        )
        self._store(run)
        return save_run(folder, run)

    def check_parameters(self) -> None:  # noqa: B027 - many models have no ranges
        """Raise unless every parameter is in its range."""

    def _store(self, run: Run) -> None:  # noqa: B027 - many models learn nothing
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
                hint="Call fit(graph) or fit(split) first.",
            )
        return graph  # type: ignore[no-any-return]

    @classmethod
    def parameter_defaults(cls) -> dict[str, Any]:
        """Return the names and defaults of the parameters."""
        if cls.__init__ is object.__init__:  # nothing to set
            return {}
        signature = inspect.signature(cls)
        return {name: given.default for name, given in signature.parameters.items()}

    def get_params(self) -> dict[str, Any]:
        """Return the parameters."""
        return {name: getattr(self, name) for name in self.parameter_defaults()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; the model must then be fitted again."""
        known = self.parameter_defaults()
        for name, value in parameters.items():
            if name not in known:
                raise UsageError(
                    f"{type(self).__name__} has no parameter {name!r}.",
                    hint=f"Its parameters are: {', '.join(known) or 'none'}.",
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = self.parameter_defaults()
        changed = {k: v for k, v in self.get_params().items() if v != defaults[k]}
        inside = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        return f"{type(self).__name__}({inside})"
