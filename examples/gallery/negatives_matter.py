"""Two protocols, two orders.

Sampled negatives make most methods look good, and some better than others that
find more links. Ranked among all pairs, the order is another one.
"""

import matplotlib.pyplot as plt

import gelato

split = gelato.split_edges(gelato.load_dataset("citeseer"), seed=0)
names = ["pa", "cn", "ra", "ac", "cos", "cos+ac"]
models = [gelato.make(name).fit(split) for name in names]
every = [100 * gelato.evaluate(model, split).ap for model in models]
some = [100 * gelato.evaluate(m, split, protocol="sampled").ap for m in models]

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for axes, values, title in ((left, some, "sampled negatives"), (right, every, "all")):
    order = sorted(range(len(names)), key=values.__getitem__)
    axes.barh([names[i] for i in order], [values[i] for i in order], color="#0072B2")
    axes.set(title=title, xlabel="average precision, %")
figure.savefig("negatives_matter.svg")
