"""The pair MLP by itself as a training task: no walks, every pair scored alone."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gelato.graph import Graph, IntArray, pair_keys
from gelato.nn.first_layer import AttributeRows, PairFeatures
from gelato.nn.losses import CrossEntropyLoss, make_loss
from gelato.nn.pair_mlp import PairMLP
from gelato.nn.pair_scorer import PairMLPScorer
from gelato.training.negatives import ListedTraining, listed_negatives
from gelato.training.validation import RankedTask


class PairMLPTask(RankedTask):
    """Losses and validation of a pair MLP that predicts links directly.

    Parameters
    ----------
    graph : Graph
        The training graph, undirected, with attributes.
    validation, batches, metric, seed
        As for :class:`~gelato.training.validation.RankedTask`.
    mlp : PairMLP
        What is trained.
    loss : str
        A name of :data:`gelato.nn.losses.LOSSES`; cross entropy reads the MLP's own
        probability, without a further unit.
    training : {"unbiased", "biased"}
        Which negatives a step sees.
    redraw : bool
        Draw the negatives of biased training anew each epoch.
    """

    def __init__(
        self,
        graph: Graph,
        validation: IntArray,
        mlp: PairMLP,
        *,
        batches: int = 10,
        loss: str = "cross-entropy",
        training: ListedTraining = "biased",
        redraw: bool = True,
        metric: str = "prec@100%",
        seed: int = 0,
    ) -> None:
        super().__init__(graph, validation, batches=batches, metric=metric, seed=seed)
        self.module, self.graph = mlp, graph
        self.draw = listed_negatives(
            training,
            graph.num_nodes,
            graph.edges,
            batches=batches,
            seed=seed,
            redraw=redraw,
        )
        given = CrossEntropyLoss(learned=False)
        self.compare = given if loss == "cross-entropy" else make_loss(loss)
        self.attributes = AttributeRows(graph.attributes)

    def loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step."""
        positives = self.graph.edges[self.positives.batch(epoch, batch)]
        with self.clock("negatives"):
            negatives, groups = self.draw(epoch, batch, len(positives))
        with self.clock("features"):
            pairs = np.concatenate([positives, negatives])
            parts = mixed_chunks(pair_keys(pairs, self.graph.num_nodes), self.module)
            blocks = [PairFeatures(self.attributes, pairs[part]) for part in parts]
        count, slopes = len(positives), None
        if isinstance(self.compare, CrossEntropyLoss):
            links = [torch.from_numpy(part < count) for part in parts]
            each = self.compare.slopes

            def slopes(block: int, scores: Tensor) -> Tensor:
                return each(scores, links[block], len(pairs))

        with self.clock("mlp"):
            said = self.module.logits(blocks, slopes)
            place = torch.empty(len(pairs), dtype=torch.int64)
            place[torch.from_numpy(np.concatenate(parts))] = torch.arange(len(pairs))
            z = said[place]
            loss: Tensor = self.compare(z[:count], z[count:], groups)
        return loss

    def validate(self) -> dict[str, float]:
        """Rank the validation edges among all pairs that are not training edges."""
        return self.ranked(PairMLPScorer(self.module, self.graph.attributes))


def mixed_chunks(keys: IntArray, mlp: PairMLP) -> list[IntArray]:
    """Cut a batch into chunks of batch normalisation that are alike.

    Sorted pairs are dealt out in turn, so that every chunk has its share of every
    node, of positives and of negatives: neighbours in the order would share a node,
    whose part in the score the normalisation would then take away.
    """
    order = np.argsort(keys, kind="stable")
    count = min(-(-len(keys) // mlp.chunk), max(1, len(keys) // 2))
    return [order[start::count] for start in range(count)]
