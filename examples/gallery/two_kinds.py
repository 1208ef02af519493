"""Who might buy what.

Two kinds of nodes, links between them only: scores as a table of customers and
products. What was bought already is blank.
"""

import matplotlib.pyplot as plt
import numpy as np

import gelato

graph = gelato.read_graph("purchases.txt")
model = gelato.make("ease").fit(graph)
ids = np.array([str(node) for node in graph.node_ids])
buyers, goods = (
    np.flatnonzero(np.char.startswith(ids, "C-") == side) for side in (1, 0)
)
buyers = buyers[np.argsort(ids[buyers])][:30]
goods = goods[np.argsort(ids[goods])]

scores = model.score_rows(buyers)[:, goods]
bought = graph.adjacency[buyers][:, goods].toarray() > 0
figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
image = axes.imshow(np.where(bought, np.nan, scores), cmap="viridis", aspect="auto")
axes.set_xticks(range(len(goods)), ids[goods], rotation=90, fontsize=6)
axes.set_yticks(range(len(buyers)), ids[buyers], fontsize=6)
figure.colorbar(image, label="score")
figure.savefig("two_kinds.svg")
