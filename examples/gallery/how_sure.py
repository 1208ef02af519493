"""How sure one can be.

Every predicted link comes with the share of such links that were true among the
validation edges, and an interval. Test edges, which nobody looked at, judge it.
"""

import matplotlib.pyplot as plt
import numpy as np

import gelato

graph = gelato.load_dataset("citeseer")
split = gelato.split_edges(graph, test=0.1, valid=0.0, seed=0)
known = gelato.split_edges(split.train_graph, test=0.0, valid=0.1, seed=1)
links = gelato.make("cos+ac").fit(known).predict(top=1_000)
low, middle, high = (
    100 * links[f"expected_{part}"].to_numpy() for part in ("low", "precision", "high")
)
true = {frozenset(pair) for pair in graph.node_ids[split.test].tolist()}
pairs = zip(links["source"], links["target"], strict=True)
hits = np.array([frozenset(pair) in true for pair in pairs])
blocks = np.arange(0, 1_000, 100)

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.fill_between(range(1_000), low, high, alpha=0.3, label="95 % interval")
axes.plot(middle, label="expected of a link at this rank")
seen = [100 * hits[at : at + 100].mean() for at in blocks]
axes.plot(blocks + 50, seen, "o", color="black", label="true, of 100 links around it")
axes.set(xlabel="rank", ylabel="true links, %")
axes.legend()
figure.savefig("how_sure.svg")
