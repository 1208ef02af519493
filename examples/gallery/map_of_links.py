"""A map with the links that are missing.

Known links are grey, the twelve likeliest new ones are orange; names as in the file.
"""

import matplotlib.pyplot as plt
import networkx as nx
import polars as pl

import gelato

known = pl.read_csv("collaborations.csv")
model = gelato.make("ra").fit(gelato.Graph.from_edges(known))
links = model.predict(top=12, max_per_node=1)
new = list(zip(links["source"], links["target"], strict=True))

graph = nx.Graph(zip(known["person"], known["colleague"], strict=True))
places = nx.spring_layout(graph, seed=3, k=0.35, iterations=200)
figure, axes = plt.subplots(figsize=(8, 6), layout="constrained")
nx.draw_networkx_edges(graph, places, edge_color="#c8c8c8", ax=axes)
nx.draw_networkx_edges(graph, places, new, edge_color="#D55E00", width=2.5, ax=axes)
nx.draw_networkx_nodes(graph, places, node_size=25, node_color="#0072B2", ax=axes)
some = {name: name for link in new for name in link}
nx.draw_networkx_labels(graph, places, some, font_size=7, ax=axes)
axes.set_axis_off()
figure.savefig("map_of_links.svg")
