"""Why this link.

The score of a walk is a sum over walks, so every neighbour has a share in it. Rare
neighbours, those with few links themselves, count more.
"""

import matplotlib.pyplot as plt
import polars as pl

import gelato

graph = gelato.Graph.from_edges(pl.read_csv("collaborations.csv"))
model = gelato.make("ra").fit(graph)
source, target = model.predict(top=1).select("source", "target").row(0)
why = model.explain(source, target, top=8)

walks = [" - ".join(map(str, walk.nodes[1:-1])) for walk in why.walks]
shares = [100 * walk.contribution / why.score for walk in why.walks]
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.barh(walks[::-1], shares[::-1], color="#009E73")
axes.set(title=f"{source} and {target}, by way of", xlabel="share of the score, %")
figure.savefig("why_this_link.svg")
