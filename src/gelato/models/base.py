"""What every predictor can do, in the manner of scikit-learn estimators."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import polars as pl

from gelato.errors import StoredFileError, UsageError
from gelato.graph import FloatArray, Graph, IntArray
from gelato.predict import pair_indices, predict_links
from gelato.ranking import score_pairs
from gelato.ranking.scorers import RowScorer
from gelato.splits import EdgeSplit
from gelato.storage import Run, save_run


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
        if self.undirected_only:
            self.graph_.require_undirected(f"{self.summary} ({self.name})")
        return self

    @abstractmethod
    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known."""

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

        See :func:`gelato.predict.predict_links` for the arguments.
        """
        graph = self._fitted_graph()
        return predict_links(
            self.scorer(graph),
            graph,
            top=top,
            per_node=per_node,
            pairs=pairs,
            nodes=nodes,
            **options,
        )

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
        training = getattr(self, "training_", None)
        return save_run(
            folder,
            Run(
                model=self.name,
                parameters=self.get_params(),
                graph=self._fitted_graph(),
                split=self.split_,
                tensors=self._state(),
                metrics=metrics or {},
                history=[] if training is None else training.history,
            ),
        )

    def _state(self) -> dict[str, Any]:
        """Return the learned tensors."""
        return {}

    def _restore(self, tensors: dict[str, Any], facts: dict[str, Any]) -> None:
        """Take learned tensors back; parameters, graph and split are set already."""
        if tensors:
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
