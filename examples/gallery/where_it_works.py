"""Where a method works.

Most links of a graph join well-linked nodes, and those are the easy ones. Recall by
the smaller degree of both ends says what newcomers can expect.
"""

import matplotlib.pyplot as plt
import numpy as np

import gelato

split = gelato.split_edges(gelato.load_dataset("citeseer"), seed=0)
degrees = np.asarray(split.train_graph.degrees)[split.test].min(axis=1)
buckets = [(0, 0), (1, 1), (2, 3), (4, 7), (8, 999)]

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for shift, name in enumerate(("ra", "ac", "cos+ac")):
    links = gelato.make(name).fit(split.train_graph).predict(top=5_000)
    found = set(zip(links["source"], links["target"], strict=True))
    ids = split.graph.node_ids[split.test].tolist()
    hits = np.array([(u, v) in found or (v, u) in found for u, v in ids])
    mine = [hits[(degrees >= low) & (degrees <= high)] for low, high in buckets]
    places = np.arange(len(buckets)) + 0.25 * (shift - 1)
    axes.bar(places, [100 * part.mean() for part in mine], 0.25, label=name)
axes.set_xticks(range(len(buckets)), ["0", "1", "2 to 3", "4 to 7", "8 and more"])
axes.set(xlabel="smaller degree of both ends", ylabel="found in 5,000 pairs, %")
axes.legend()
figure.savefig("where_it_works.svg")
