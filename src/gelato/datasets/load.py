"""Find a benchmark graph wherever it is: a folder, the package, the cache, the web."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gelato.datasets.catalog import (
    PACKAGE_DATA,
    Dataset,
    catalog,
    content_digest,
    find,
)
from gelato.datasets.convert import convert_amazon, convert_planetoid
from gelato.datasets.fetch import cache_folder, fetch_raw
from gelato.errors import InputError, StoredFileError
from gelato.graph import Graph
from gelato.io import read_npz, write_npz

Progress: TypeAlias = Callable[[str], None]
Origin: TypeAlias = Literal["folder", "package", "cache", "download"]


@dataclass(frozen=True)
class DatasetFacts:
    """A line of :func:`list_datasets`.

    ``origin`` says where the graph would come from now: the ``folder`` that
    GELATO_DATA names, the ``package`` itself, the ``cache`` or a ``download``;
    ``path`` is the file, if there is one already.
    """

    name: str
    nodes: int
    edges: int
    attributes: int
    description: str
    source: str
    licence: str
    origin: Origin
    path: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return asdict(self)


def load_dataset(
    name: str, *, mirror: str | None = None, progress: Progress | None = None
) -> Graph:
    """Load a benchmark graph by name.

    The first of these that has it: the file ``NAME.npz`` in the folder that the
    environment variable ``GELATO_DATA`` names; the package (citeseer); the cache
    folder (``GELATO_CACHE``, or the platform's usual place); a download of the
    public files, checked by their sha256 and converted once.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.
    mirror : str, optional
        A base URL instead of the public locations (default: ``GELATO_MIRROR``).
    progress : callable, optional
        Called with a line of text before each transfer.

    Returns
    -------
    Graph
        With node ids ``0..n-1``, sparse attributes and labels.

    Raises
    ------
    UnknownNameError
        If no dataset has this name.
    MissingDataError
        If it is not on this machine and cannot be fetched.
    StoredFileError
        If a file was found that is damaged or not the published graph.

    Examples
    --------
    >>> load_dataset("citeseer")
    Graph(3,327 nodes, 4,552 undirected edges, 3,703 attributes)
    """
    path = dataset_path(name, mirror=mirror, progress=progress)
    return _read_checked(path, find(name))


def dataset_path(
    name: str, *, mirror: str | None = None, progress: Progress | None = None
) -> Path:
    """Return the npz file of a benchmark graph, fetching it if there is none yet."""
    dataset = find(name)
    _, path = _locate(dataset)
    if path is not None:
        return path
    graph = _convert(dataset, fetch_raw(dataset, mirror=mirror, progress=progress))
    path = cache_folder() / f"{name}.npz"
    _check_content(graph, dataset, f"The graph converted for {path}")
    write_npz(graph, path)
    return path


def list_datasets() -> list[DatasetFacts]:
    """Return the benchmark graphs, with their size and where each would come from."""
    facts = []
    for dataset in catalog().values():
        origin, path = _locate(dataset)
        facts.append(
            DatasetFacts(
                name=dataset.name,
                nodes=dataset.num_nodes,
                edges=dataset.num_edges,
                attributes=dataset.num_attributes,
                description=dataset.description,
                source=dataset.source,
                licence=dataset.licence,
                origin=origin,
                path=None if path is None else str(path),
            )
        )
    return facts


def _locate(dataset: Dataset) -> tuple[Origin, Path | None]:
    """Return where a dataset would come from now."""
    folders: list[tuple[Origin, Path]] = [
        ("package", PACKAGE_DATA),
        ("cache", cache_folder()),
    ]
    given = os.environ.get("GELATO_DATA")
    if given:
        folder = Path(given).expanduser()
        if not folder.is_dir():
            raise InputError(
                f"GELATO_DATA names {folder}, which is not a folder.",
                hint="Name the folder that holds the npz files, or unset it.",
            )
        folders.insert(0, ("folder", folder))
    for origin, folder in folders:
        path = folder / f"{dataset.name}.npz"
        if path.exists():
            return origin, path
    return "download", None


def _convert(dataset: Dataset, folder: Path) -> Graph:
    if dataset.raw_format == "amazon":
        return convert_amazon(folder / dataset.files[0].name)
    return convert_planetoid(folder, dataset.name)


def _read_checked(path: Path, dataset: Dataset) -> Graph:
    try:
        graph = read_npz(path)
    except InputError as error:
        raise StoredFileError(
            f"{path} cannot be used as the dataset {dataset.name!r}: {error.problem}",
            hint="Delete it or put the right file in its place.",
        ) from error
    _check_content(graph, dataset, str(path))
    return graph


def _check_content(graph: Graph, dataset: Dataset, what: str) -> None:
    """Raise unless a graph is, value for value, the one that the name stands for."""
    expected = (dataset.num_nodes, dataset.num_edges, dataset.num_attributes)
    found = (graph.num_nodes, graph.num_edges, graph.num_attributes)
    words = "{:,} nodes, {:,} edges and {:,} attributes"
    if found != expected:
        difference = f"it has {words.format(*found)}, not {words.format(*expected)}"
    elif graph.labels is None or content_digest(graph) != dataset.content:
        difference = "its size is right, but its edges, attributes or labels differ"
    else:
        return
    raise StoredFileError(
        f"{what} is not the published graph {dataset.name!r}: {difference}.",
        hint="Delete it or put the right file in its place; a graph of your own is "
        "read with Graph.from_npz.",
    )
