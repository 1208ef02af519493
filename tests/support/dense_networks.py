"""The networks once more: dense matrices, loops, formulas as published."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
from torch.nn import functional


def dense_adjacency(graph):
    return torch.tensor(graph.adjacency.toarray())


def symmetric(graph):
    looped = dense_adjacency(graph) + torch.eye(graph.num_nodes)
    root = looped.sum(1) ** -0.5
    return root[:, None] * looped * root[None, :]


def attributes(graph, normalise):
    x = torch.tensor(graph.attributes.toarray(), dtype=torch.float64)
    return x / x.sum(1, keepdim=True).clamp_min(1e-12) if normalise else x


def gae_scores(module, graph):
    a, x = symmetric(graph), attributes(graph, False)
    hidden = (a @ x @ module.first.double()).relu()
    mean = a @ hidden @ module.mean.double()
    return mean @ mean.T


def gae_loss(z, graph):
    """The reference's weighted cross entropy over all n^2 entries."""
    a = dense_adjacency(graph)
    n, ones = len(a), float(a.sum())
    weight = torch.tensor((n * n - ones) / ones)
    norm = n * n / (2 * (n * n - ones))
    target = a + torch.eye(n)
    return norm * functional.binary_cross_entropy_with_logits(
        z @ z.T, target, pos_weight=weight
    )


class Ball:
    """The ball by its textbook formulas, a point at a time, without caps."""

    def __init__(self, c):
        self.c, self.root = c, math.sqrt(c)

    def exp(self, u):
        norm = u.norm()
        if norm == 0:
            return u
        return torch.tanh(self.root * norm) * u / (self.root * norm)

    def log(self, x):
        norm = x.norm()
        if norm == 0:
            return x
        return torch.atanh(self.root * norm) * x / (self.root * norm)

    def add(self, x, y):
        c, xy, xx, yy = self.c, x @ y, x @ x, y @ y
        top = (1 + 2 * c * xy + c * yy) * x + (1 - c * xx) * y
        return top / (1 + 2 * c * xy + c * c * xx * yy)

    def squared_distance(self, x, y):
        gap = self.root * self.add(-x, y).norm()
        return (2 / self.root * torch.atanh(gap)) ** 2


def hgcn_distances(module, graph):
    looped = dense_adjacency(graph) + torch.eye(graph.num_nodes)
    average = looped / looped.sum(1, keepdim=True)
    cs = [float(c) for c in module.curvatures]
    x = torch.stack([Ball(cs[0]).exp(row) for row in attributes(graph, True)])
    for i, (matrix, bias) in enumerate(zip(module.weights, module.biases, strict=True)):
        ball, following = Ball(cs[i]), Ball(cs[i + 1])
        moved = [ball.exp(matrix.double() @ ball.log(row)) for row in x]
        moved = [ball.add(row, ball.exp(bias.double())) for row in moved]
        tangent = average @ torch.stack([ball.log(row) for row in moved])
        mixed = torch.stack([ball.exp(row) for row in tangent])
        x = torch.stack([following.exp(ball.log(row).relu()) for row in mixed])
    last = Ball(cs[-1])
    return torch.stack(
        [torch.stack([last.squared_distance(u, v) for v in x]) for u in x]
    )


def lorentz(x, y):
    return -x[0] * y[0] + x[1:] @ y[1:]


def lift(u, c):
    root, norm = math.sqrt(c), u.norm()
    if norm == 0:
        return torch.cat([torch.tensor([root], dtype=u.dtype), u])
    angle = norm / root
    return torch.cat(
        [(root * torch.cosh(angle))[None], root * torch.sinh(angle) * u / norm]
    )


def lower(x, c):
    root, norm = math.sqrt(c), x[1:].norm()
    if norm == 0:
        return x[1:]
    return root * torch.acosh(x[0] / root) * x[1:] / norm


def lgcn_distances(module, graph):
    n = graph.num_nodes
    near = [[v for v in range(n) if graph.adjacency[u, v]] + [u] for u in range(n)]
    cs = [float(c) for c in module.curvatures]
    x = [lift(row, cs[0]) for row in attributes(graph, True)]
    for i in range(len(module.weights)):
        c = cs[i]
        groups = (module.weights, module.biases, module.attention)
        matrix, bias, other = (group[i].double() for group in groups)
        shift = module.attention_biases[i].double()
        moved = [lift(matrix @ lower(row, c) + bias, c) for row in x]
        seen = [lift(other @ lower(row, c) + shift, c) for row in moved]
        x = []
        for u in range(n):
            mixture = 0
            for v in near[u]:
                apart = float(-(c + lorentz(seen[u], seen[v])))
                mixture = mixture + math.exp(-min(max(apart, 1e-10), 1.0)) * moved[v]
            centre = math.sqrt(c) * mixture / abs(lorentz(mixture, mixture)) ** 0.5
            x.append(lift(lower(centre, c).relu(), cs[i + 1]))
    c = cs[-1]
    return torch.stack([torch.stack([-2 * (c + lorentz(u, v)) for v in x]) for u in x])


def bscnets_laplacians(edges, num_nodes):
    """Incidences entry by entry, triangles by trying every three edges' nodes."""
    e = len(edges)
    place = {tuple(edge): i for i, edge in enumerate(edges.tolist())}
    b1 = np.zeros((num_nodes, e))
    for i, (u, v) in enumerate(edges):
        b1[u, i], b1[v, i] = -1, 1
    faces = [
        (a, b, c)
        for a in range(num_nodes)
        for b in range(a + 1, num_nodes)
        for c in range(b + 1, num_nodes)
        if (a, b) in place and (b, c) in place and (a, c) in place
    ]
    b2 = np.zeros((e, len(faces)))
    for j, (a, b, c) in enumerate(faces):
        b2[place[a, b], j] = b2[place[b, c], j] = 1
        b2[place[a, c], j] = -1
    d2 = np.diag(np.maximum(np.abs(b2).sum(1), 1))
    d1 = 2 * np.diag((np.abs(b1) @ d2).sum(1))
    l0 = b1.T @ b1
    l1 = d2 @ b1.T @ np.linalg.pinv(d1) @ b1 + b2 @ b2.T @ np.linalg.inv(d2) / 3
    return l0, l1, len(faces)


def bscnets_distances(module, graph):
    a, x = symmetric(graph), attributes(graph, module.normalise)
    hidden = (a @ x @ module.first.double() + module.first_bias.double()).relu()
    g = (a @ hidden @ module.second.double() + module.second_bias.double()).relu()
    l0, l1, _ = bscnets_laplacians(module.sample.numpy(), graph.num_nodes)
    l0, l1 = torch.tensor(l0 @ l0), torch.tensor(l1 @ l1)
    off, lower_w, upper_w = (
        w.double() for w in (module.off, module.lower, module.upper)
    )
    r = off @ (l0 @ lower_w) @ (l1 @ upper_w).T
    block = torch.cat([torch.cat([l0, r], 1), torch.cat([r.T, l1], 1)]).relu()
    s = x @ module.lift.double() @ block.softmax(1) @ module.down.double()
    parts = []
    for rows, share in ((g, 1.0), (s, 0.1)):
        length = rows.norm(dim=1, keepdim=True)
        rows = torch.where(length > 1, rows / length, rows)
        parts.append(share * (rows[:, None] - rows[None]) ** 2)
    pair, out = module.pair, module.out
    units = torch.cat(parts, 2) @ pair.weight.double().T + pair.bias.double()
    units = functional.leaky_relu(units, 0.2)
    return (units @ out.weight.double().T + out.bias.double()).abs()[..., 0]


def neo_gnn_probabilities(module, graph):
    """Structure, features and mixture: three n x n matrices of probabilities."""
    n = graph.num_nodes
    a = (dense_adjacency(graph) != 0).double()
    reach = a + module.beta * a @ a
    x = torch.zeros(n, 1, dtype=torch.float64)
    for u in range(n):
        for v in range(n):
            if reach[u, v]:
                x[v] += module.of_edge(reach[u, v].reshape(1, 1))[0]
    w = module.of_node(x)[:, 0]
    mixed = reach * w
    overlap = mixed @ mixed.T
    structure = module.of_overlap(overlap.reshape(-1, 1)).reshape(n, n).sigmoid()
    average, h = symmetric(graph), attributes(graph, module.normalise)
    for i, (matrix, bias) in enumerate(zip(module.weights, module.biases, strict=True)):
        h = average @ (h.relu() if i else h) @ matrix.double() + bias.double()
    z = h[:, None] * h[None]
    for i, layer in enumerate(module.predictor):
        z = (z.relu() if i else z) @ layer.weight.double().T + layer.bias.double()
    feature = z[..., 0].sigmoid()
    share = module.shares.double().softmax(0)
    return structure, feature, share[0] * structure + share[1] * feature


def ncn_scores(module, graph):
    """Loops over pairs and their common neighbours."""
    near = [set(np.flatnonzero(row)) for row in graph.adjacency.toarray()]
    x = attributes(graph, module.normalise)
    x = x @ module.first.weight.double().T + module.first.bias.double()
    average, h = symmetric(graph), 0
    for weight in module.depths:
        x = average @ x
        h = h + weight.double() * x
    module = copy.deepcopy(module).double()
    z = h + module.own_second(module.own(h).relu())
    n = len(h)
    scores = torch.zeros(n, n, dtype=torch.float64)
    for u in range(n):
        for v in range(n):
            pooled = torch.zeros_like(z[0])
            for w in near[u] & near[v]:
                pooled = pooled + z[w]
            common = module.common_second(module.common(pooled).relu())
            x = module.share * common + module.product(h[u] * h[v])
            for layer in module.head:
                x = layer(x)
            scores[u, v] = module.last(x)
    return scores


def refined_gae_scores(module, graph):
    x = attributes(graph, module.normalise)
    module = copy.deepcopy(module).double()
    a, share = symmetric(graph), module.shares.exp() / module.shares.exp().sum()
    h = a @ x @ module.first
    states = share[0] * h
    for i, norm in enumerate(module.norms, 1):
        h = a @ functional.layer_norm(h, h.shape[1:], norm.weight, norm.bias)
        states = states + share[i] * h
    product = states[:, None] * states[None]
    x = product
    for layer in module.net:
        x = layer.linear(x) + (product if module.residual else 0)
        mean, spread = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
        x = (x - mean) / (spread + 1e-5).sqrt()
        x = x * layer.norm.weight + layer.norm.bias
        x = getattr(functional, layer.activation)(x)
    return module.last(x)[..., 0]
