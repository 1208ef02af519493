"""Attributed graphs of every temper, drawn by seed, for tests of the default choice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from gelato.graph import Graph

Draw = Callable[[int], Graph]


def _edges(chance, rng):
    """Draw each pair of nodes as an edge with its own chance."""
    drawn = np.triu(rng.random(chance.shape) < chance, 1)
    return np.argwhere(drawn)


def _words(topic, rng, *, words=60, own=0.35, other=0.03):
    """Binary attributes: a topic has words of its own, others are rare."""
    topics = topic.max() + 1
    mine = (np.arange(words) % topics)[None, :] == topic[:, None]
    return sp.csr_array(
        (rng.random(mine.shape) < np.where(mine, own, other)).astype(np.float32)
    )


def _blocks(n, topics, rng):
    return rng.permutation(np.arange(n) % topics)


def _same(topic):
    return topic[:, None] == topic[None, :]


def homophilous(seed, n=300, topics=15, inside=0.3, outside=0.004):
    """Links inside topics, attributes of the topic."""
    rng = np.random.default_rng(seed)
    topic = _blocks(n, topics, rng)
    edges = _edges(np.where(_same(topic), inside, outside), rng)
    return Graph.from_indices(n, edges, attributes=_words(topic, rng))


def sparse_homophilous(seed):
    """Few links, so that attributes say most."""
    return homophilous(seed, n=400, topics=10, inside=0.05, outside=0.001)


def near_in_space(seed, n=300, kept=0.45):
    """Nodes in a space of attributes, some of the nearest pairs linked."""
    rng = np.random.default_rng(seed)
    place = rng.normal(size=(n, 6))
    place /= np.linalg.norm(place, axis=1, keepdims=True)
    nearness = np.triu(place @ place.T, 1)
    limit = np.sort(nearness[nearness > 0])[-1500]
    edges = _edges(np.where(nearness >= limit, kept, 0.0005), rng)
    seen = place + 0.03 * rng.normal(size=place.shape)
    return Graph.from_indices(n, edges, attributes=seen.astype(np.float32))


def keywords(seed, n=300):
    """Nodes have four keywords each; most that share two are linked."""
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((n, 60)), axis=1)
    words = sp.csr_array((order < 4).astype(np.float32))
    shared = (words @ words.T).toarray()
    chance = np.where(shared >= 2, 0.7, 0.003)
    return Graph.from_indices(n, _edges(chance, rng), attributes=words)


def good_and_bad_edges(seed, n=300, topics=30):
    """Links across topics are noise that attributes can tell from the rest."""
    return homophilous(seed, n=n, topics=topics, inside=0.55, outside=0.012)


def dense_attributes(seed):
    """Real-valued attributes around the centre of the topic."""
    graph = homophilous(seed)
    rng = np.random.default_rng(seed)
    topic = _blocks(graph.num_nodes, 15, rng)
    centres = rng.normal(size=(15, 20))
    noise = rng.normal(size=(graph.num_nodes, 20))
    return Graph.from_indices(
        graph.num_nodes,
        graph.edges,
        attributes=(centres[topic] + 0.5 * noise).astype(np.float32),
    )


def heterophilous(seed, n=300, topics=10):
    """Links between topics k and k + 1, hardly any inside."""
    rng = np.random.default_rng(seed)
    topic = _blocks(n, topics, rng)
    step = (topic[:, None] - topic[None, :]) % topics
    chance = np.where((step == 1) | (step == topics - 1), 0.14, 0.002)
    return Graph.from_indices(n, _edges(chance, rng), attributes=_words(topic, rng))


def noisy_attributes(seed):
    """Half of the attributes are noise, and the rest says little."""
    rng = np.random.default_rng(seed)
    graph = homophilous(seed)
    topic = _blocks(graph.num_nodes, 15, np.random.default_rng(seed))
    weak = _words(topic, rng, own=0.1, other=0.06)
    noise = sp.csr_array((rng.random((graph.num_nodes, 60)) < 0.1).astype(np.float32))
    both = sp.csr_array(sp.hstack([weak, noise]))
    return Graph.from_indices(graph.num_nodes, graph.edges, attributes=both)


def noisy_edges(seed):
    """As many links across topics as inside."""
    return homophilous(seed, inside=0.25, outside=0.018)


def useless_attributes(seed):
    """Attributes that know nothing of the links."""
    rng = np.random.default_rng(seed + 1000)
    graph = homophilous(seed)
    noise = sp.csr_array((rng.random((graph.num_nodes, 60)) < 0.1).astype(np.float32))
    return Graph.from_indices(graph.num_nodes, graph.edges, attributes=noise)


def constant_attributes(seed):
    """The same attributes for all nodes."""
    graph = homophilous(seed)
    same = np.ones((graph.num_nodes, 4), dtype=np.float32)
    return Graph.from_indices(graph.num_nodes, graph.edges, attributes=same)


def no_attributes(seed):
    """Edges only."""
    graph = homophilous(seed)
    return Graph.from_indices(graph.num_nodes, graph.edges)


def missing_attributes(seed):
    """Every other node has no attributes."""
    graph = homophilous(seed)
    rng = np.random.default_rng(seed)
    there = sp.diags_array((rng.random(graph.num_nodes) < 0.5).astype(np.float32))
    known = sp.csr_array(there @ graph.attributes)
    known.eliminate_zeros()
    return Graph.from_indices(graph.num_nodes, graph.edges, attributes=known)


def hubs(seed, n=300):
    """Few nodes have most of the links; attributes know nothing."""
    rng = np.random.default_rng(seed)
    pull = rng.pareto(1.2, n) + 0.2
    chance = np.minimum(0.9, 1200 * np.outer(pull, pull) / pull.sum() ** 2)
    noise = sp.csr_array((rng.random((n, 40)) < 0.1).astype(np.float32))
    return Graph.from_indices(n, _edges(chance, rng), attributes=noise)


def bipartite(seed, n=300, topics=8):
    """Links only between two sides of the same topic; attributes tell both."""
    rng = np.random.default_rng(seed)
    topic, side = _blocks(n, topics, rng), np.arange(n) % 2
    across = side[:, None] != side[None, :]
    chance = np.where(across, np.where(_same(topic), 0.3, 0.005), 0.0)
    return Graph.from_indices(n, _edges(chance, rng), attributes=_words(topic, rng))


def small(seed):
    """Forty nodes: hardly any validation edges."""
    return homophilous(seed, n=40, topics=4, inside=0.6, outside=0.05)


SIGNAL: tuple[Draw, ...] = (near_in_space, keywords)
USELESS: tuple[Draw, ...] = (
    useless_attributes,
    constant_attributes,
    no_attributes,
    hubs,
)
MIXED: tuple[Draw, ...] = (
    homophilous,
    sparse_homophilous,
    noisy_edges,
    good_and_bad_edges,
    dense_attributes,
    heterophilous,
    noisy_attributes,
    missing_attributes,
    bipartite,
    small,
)
GRAPHS = (*SIGNAL, *USELESS, *MIXED)
