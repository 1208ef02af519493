"""A predictor of one's own, measured like all others.

Anything with ``score_rows(rows) -> (len(rows), n)`` is ranked against every non-link,
compared with the built-in heuristics, and asked for links. Run it with
``python examples/own_scorer.py``; it needs no files.
"""

from __future__ import annotations

import numpy as np

import gelato

graph = gelato.load_dataset("citeseer")
split = gelato.split_edges(graph)
print(graph)


class SharedWords:
    """Words that two papers share, and a little for common neighbours."""

    def __init__(self, known: gelato.Graph) -> None:
        self.words = known.attributes
        self.neighbours = gelato.make("cn").scorer(known)

    def score_rows(self, rows: np.ndarray) -> np.ndarray:
        """Score the pairs of some rows with all nodes."""
        shared = (self.words[rows] @ self.words.T).toarray()
        return shared + 10 * self.neighbours.score_rows(rows)


mine = SharedWords(split.train_graph)
exact = gelato.evaluate(mine, split)
biased = gelato.evaluate(mine, split, protocol="sampled")
print("mine, against every non-link:", exact)
print("mine, as the field reports it:", biased)

table = gelato.compare(split, ["aa", "ac", "cos"]).sort("ap", descending=True)
print(table.select("model", "ap", "auc", "hits@100"))

best = table["model"][0]
links = gelato.make(best).fit(split).predict(top=5)
print(f"most likely missing links, by {best}:")
print(links.select("source", "target", "score"))
