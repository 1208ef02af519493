"""NBFNet's recursion written down plainly, with torch's own derivatives."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional


def extreme(messages, over, of_two):
    """Return the largest or smallest message; equal ones all take its gradient.

    The boundary, which is the last one, takes half of it where it is equal.
    """
    sent, boundary = messages[:-1], messages[-1]
    value = over(sent, dim=0).detach()
    moving = torch.where(sent == value, sent - sent.detach(), 0.0).sum(dim=0)
    return of_two(value + moving, boundary)


def plain_states(graph, source, query, relation, gathered, own, bias, gain, shift):
    """Return the states of all nodes after the last layer, ``(n, w)``."""
    n, w = graph.num_nodes, len(query)
    linked = np.zeros((n, n), bool)
    linked[graph.edges[:, 0], graph.edges[:, 1]] = True
    linked |= linked.T
    np.fill_diagonal(linked, True)
    lists = [torch.from_numpy(np.flatnonzero(row)) for row in linked]
    logs = torch.tensor([len(row) + 1.0 for row in lists], dtype=query.dtype).log()
    scale = logs / logs.mean()
    boundary = [query if v == source else torch.zeros_like(query) for v in range(n)]
    h = torch.stack(boundary)
    for layer in range(len(relation)):
        new = []
        for v in range(n):
            messages = relation[layer] * h[lists[v]]
            messages = torch.cat([messages, boundary[v][None]])
            mean = messages.mean(dim=0)
            spread = (messages**2).mean(dim=0) - mean**2
            statistics = torch.cat(
                [
                    mean,
                    extreme(messages, torch.amax, torch.maximum),
                    extreme(messages, torch.amin, torch.minimum),
                    spread.clamp(min=1e-6).sqrt(),
                ]
            )
            scalers = (1.0, scale[v], 1 / scale[v].clamp(min=0.01))
            mixed = bias[layer] + h[v] @ own[layer]
            for scaler, matrix in zip(scalers, gathered[layer], strict=True):
                mixed = mixed + scaler * statistics @ matrix
            normed = functional.layer_norm(mixed, (w,), gain[layer], shift[layer])
            new.append(normed.relu() + h[v])
        h = torch.stack(new)
    return h


def plain_logits(module, graph):
    """Return the logits of all pairs, ``(n, n)``, in double precision."""
    weights = [tensor.double() for tensor in module.weights]
    n = graph.num_nodes
    h = torch.stack([plain_states(graph, u, *weights) for u in range(n)])
    f = (h + h.transpose(0, 1)) / 2
    f = torch.cat([f, weights[0].expand(n, n, -1)], dim=2)
    first, last = module.first.double(), module.last.double()
    logits = last(first(f).relu())[..., 0]
    module.float()
    return logits
