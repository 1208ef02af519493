"""Benchmark graphs by name: one embedded, the others from a folder or the web."""

from gelato.datasets.fetch import cache_folder
from gelato.datasets.load import (
    DatasetFacts,
    dataset_path,
    list_datasets,
    load_dataset,
)

__all__ = [
    "DatasetFacts",
    "cache_folder",
    "dataset_path",
    "list_datasets",
    "load_dataset",
]
