"""How many of the first links are true.

A list is read from the top. Precision among the first k pairs shows where a method
earns its average precision, and where it stops.
"""

import matplotlib.pyplot as plt
import numpy as np

import gelato

split = gelato.split_edges(gelato.load_dataset("citeseer"), seed=0)
steps = np.unique(np.geomspace(5, 2000, 30).astype(int))

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name in ("ac", "ease", "cos+ac", "cos"):
    result = gelato.evaluate(gelato.make(name).fit(split), split)
    precision = [100 * result.precision_at(k / len(split.test)) for k in steps]
    axes.plot(steps, precision, label=name)
axes.set(xscale="log", xlabel="first k pairs of the list", ylabel="true links, %")
axes.legend()
figure.savefig("first_links.svg")
