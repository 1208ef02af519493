"""Benchmark graphs by name, and synthetic graphs of any size."""

from gelato.datasets.load import (
    DatasetFacts,
    cache_folder,
    dataset_path,
    list_datasets,
    load_dataset,
)
from gelato.datasets.synthetic import (
    GraphRecipe,
    make_graph,
    make_synthetic_graph,
)

__all__ = [
    "DatasetFacts",
    "GraphRecipe",
    "cache_folder",
    "dataset_path",
    "list_datasets",
    "load_dataset",
    "make_graph",
    "make_synthetic_graph",
]
