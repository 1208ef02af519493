"""Benchmark graphs by name, and synthetic graphs of any size."""

from gelato.datasets.fetch import cache_folder
from gelato.datasets.load import (
    DatasetFacts,
    dataset_path,
    list_datasets,
    load_dataset,
)
from gelato.datasets.recipe import GraphRecipe
from gelato.datasets.synthetic import make_graph

__all__ = [
    "DatasetFacts",
    "GraphRecipe",
    "cache_folder",
    "dataset_path",
    "list_datasets",
    "load_dataset",
    "make_graph",
]
