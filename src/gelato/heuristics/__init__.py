"""Topological and attribute heuristics, each a scorer of rows of pairs."""

from gelato.heuristics.cosine import cosine
from gelato.heuristics.walks import (
    adamic_adar,
    autocovariance,
    autocovariance_of,
    common_neighbours,
    preferential_attachment,
    resource_allocation,
)

__all__ = [
    "adamic_adar",
    "autocovariance",
    "autocovariance_of",
    "common_neighbours",
    "cosine",
    "preferential_attachment",
    "resource_allocation",
]
