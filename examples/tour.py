"""A tour in Python.

From two tables to predicted links with reasons, in a handful of lines. Every
`# %%` starts a cell: editors such as VS Code, Spyder and PyCharm run them one by one,
and `python examples/tour.py` runs them all in a few seconds. It is part of the tests.
"""

# %%
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import gelato

# %% [markdown]
# ## A graph from two tables
#
# Polars or pandas frames, paths, arrays, networkx and PyG graphs all do. The first two
# columns are the ends of an edge, the first column of the attributes is the node. What
# was dropped, merged or assumed is in `graph.notes`.

# %%
data = Path(__file__).parent / "data"
collaborations = pl.read_csv(data / "collaborations.csv")
people = pl.read_csv(data / "people.csv").drop("joined")

graph = gelato.Graph.from_edges(collaborations, people)
print(graph)
print(*graph.notes, sep="\n")

# %% [markdown]
# ## Hold some edges out
#
# Without held-out edges nobody can say how good a guess is. Validation edges choose,
# test edges only measure. `split_by_time` holds out the latest edges instead.

# %%
split = gelato.split_edges(graph, valid=0.15, test=0.10, seed=0)
print(split)

# %% [markdown]
# ## Fit and measure
#
# `evaluate` ranks every held-out edge among all pairs that are not edges. The sampled
# protocol is there for contrast, and says that it is biased.

# %%
walks = gelato.make("ac").fit(split)  # a heuristic: nothing to learn
learned = gelato.make("gelato", eta=1.0, alpha=0.5, beta=0.5, epochs=5, seed=1)
learned.fit(split)  # as in scikit-learn, fit returns the model

for model in (walks, learned):
    print(model, gelato.evaluate(model, split), sep="\n  ")
print(gelato.evaluate(learned, split, protocol="sampled"))

# %% [markdown]
# ## Compare
#
# The same splits for all, one row per run, as a polars frame. `.to_pandas()` turns any
# table of gelato into a pandas frame.

# %%
splits = [gelato.split_edges(graph, seed=seed) for seed in range(3)]
runs = gelato.compare(splits, ["aa", "ac", "cos", "cos+ac"])
means = runs.group_by("model").agg(pl.col("ap").mean(), pl.col("auc").mean())
print(means.sort("ap", descending=True))
print(runs.to_pandas().groupby("model")["ap"].std())

# %% [markdown]
# ## Predict
#
# From all known edges, in your own ids. `expected_precision` says which share of pairs
# ranked like this one to expect to be true, between `expected_low` and `expected_high`.

# %%
links = learned.predict(top=5, max_per_node=1)
print(links.select("rank", "source", "target", "score", "expected_precision"))
print(learned.predict(per_node=2, nodes=["Kira Costa"]).select("target", "score"))
print(learned.score_pairs([("Ada Abel", "Hugo Farah")]))

# %% [markdown]
# ## Explain
#
# The score of a walk-based model is a sum over walks; here are the strongest.

# %%
source, target = links["source"][0], links["target"][0]
why = learned.explain(source, target, top=3)
print(why)

# %% [markdown]
# ## Keep it
#
# A run folder is plain data: parameters, weights, graph and split, no pickle.

# %%
with TemporaryDirectory() as folder:
    learned.save(Path(folder) / "run")
    again = gelato.load(Path(folder) / "run")
print(again.score_pairs([(source, target)]) == learned.score_pairs([(source, target)]))

# %% [markdown]
# ## Bring your own scorer
#
# A function of the graph that returns something with `score_rows(rows)` is enough: a
# row is a node, its columns are all nodes. It is then ranked, compared and asked for
# links like any other; see also `examples/own_scorer.py`.


# %%
class SharedInterests:
    """Score a pair by how many attributes its nodes share."""

    def __init__(self, known):
        self.attributes = known.attributes

    def score_rows(self, rows):
        """Return one row per node asked for, one column per node."""
        shared = self.attributes[rows] @ self.attributes.T
        return shared.toarray() if hasattr(shared, "toarray") else shared


mine = SharedInterests(split.train_graph)
print(gelato.evaluate(mine, split))

# %% [markdown]
# ## Or let the graph decide
#
# Without a favourite, models compete on the validation edges within a time budget.

# %%
choice = gelato.choose_model(split, seconds=10, train=False)
print(choice.reason)
print(choice.candidates.select("model", "parameters", "ap").head(3))
