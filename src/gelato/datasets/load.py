"""Find a benchmark graph wherever it is: a folder, the package, the cache, the web."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gelato.datasets.catalog import (
    PACKAGE_DATA,
    Dataset,
    RawFile,
    catalog,
    content_digest,
    find,
)
from gelato.datasets.convert import convert_amazon, convert_planetoid
from gelato.errors import (
    InputError,
    MissingDataError,
    OutputError,
    StoredFileError,
    UsageError,
)
from gelato.graph import Graph
from gelato.io import read_npz, write_npz

# What the commoner exceptions of requests mean; their own texts are unreadable.
_REASONS = {
    "ChunkedEncodingError": "the transfer was cut",
    "ConnectTimeout": "the server does not answer",
    "ConnectionError": "there is no connection to the server",
    "ProxyError": "there is no connection to the proxy",
    "ReadTimeout": "the server stopped answering",
    "SSLError": "the connection is not secure",
}

TIMEOUT = 30.0  # seconds without a byte before a transfer is given up


def cache_folder() -> Path:
    """Return the folder of converted graphs: ``GELATO_CACHE`` or the platform's."""
    given = os.environ.get("GELATO_CACHE")
    if given:
        return Path(given).expanduser()
    import pooch

    return Path(pooch.os_cache("gelato"))


def fetch_raw(
    dataset: Dataset,
    *,
    mirror: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Return a folder that holds all raw files of a dataset, fetching missing ones.

    Parameters
    ----------
    dataset : Dataset
        What to fetch.
    mirror : str, optional
        A base URL to use instead of the public locations; files are expected at
        ``MIRROR/FILE``. Default: the environment variable ``GELATO_MIRROR``.
    progress : callable, optional
        Called with a line of text before each transfer.
    """
    base = _base_url(mirror)
    folder = cache_folder() / "raw"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"The cache folder {folder} cannot be made: {error.strerror or error}.",
            hint="Name a folder that can be written to in GELATO_CACHE.",
        ) from error
    for file in dataset.files:
        if _is_there(folder, file):
            continue
        url = f"{base}/{file.name}" if base else file.url
        if progress is not None:
            progress(f"fetching {url}")
        _retrieve(dataset, file, url, folder)
    return folder


def _base_url(mirror: str | None) -> str:
    base = (mirror or os.environ.get("GELATO_MIRROR", "")).rstrip("/")
    if base and not base.startswith(("https://", "http://")):
        raise UsageError(
            f"The mirror {base!r} is not a web address.",
            hint="Give one that starts with https://, or unset GELATO_MIRROR.",
        )
    return base


def _is_there(folder: Path, file: RawFile) -> bool:
    """Return whether a raw file is in the folder; raise if it is a wrong one."""
    import pooch

    path = folder / file.name
    if not path.exists():
        return False
    if not path.is_file() or pooch.file_hash(str(path)) != file.sha256:
        raise StoredFileError(
            f"{path} is not the file that was published: its sha256 is not "
            f"{file.sha256}.",
            hint="Delete it; it is fetched again when needed.",
        )
    return True


def _retrieve(dataset: Dataset, file: RawFile, url: str, folder: Path) -> None:
    import pooch

    try:
        with _quiet(pooch.get_logger()):
            pooch.retrieve(
                url,
                known_hash=f"sha256:{file.sha256}",
                fname=file.name,
                path=folder,
                downloader=pooch.HTTPDownloader(timeout=TIMEOUT),
            )
    except OSError as error:  # every failure of requests is one
        raise missing(dataset, f"{url} cannot be fetched ({_reason(error)})") from error
    except ValueError as error:
        raise StoredFileError(
            f"{url} holds another file than the one published: its sha256 is not "
            f"{file.sha256}. Nothing was kept.",
            hint=f"Try again, or use another source. {_by_hand(dataset)}",
        ) from error


def missing(dataset: Dataset, reason: str) -> MissingDataError:
    """Return the error that says which file to put where."""
    return MissingDataError(
        f"The dataset {dataset.name!r} is not on this machine, and {reason}.",
        hint=_by_hand(dataset),
    )


def _by_hand(dataset: Dataset) -> str:
    files = ", ".join(file.name for file in dataset.files)
    return (
        f"Put {dataset.name}.npz into a folder and name the folder in GELATO_DATA; or "
        f"put {files} into {cache_folder() / 'raw'}."
    )


def _reason(error: OSError) -> str:
    """Return in a few words why a transfer failed."""
    response = getattr(error, "response", None)
    if response is not None:
        response.close()  # pooch leaves the connection of a refused request open
        return f"HTTP status {response.status_code}"
    return _REASONS.get(type(error).__name__) or str(error)


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep pooch from writing to stderr, which belongs to whoever calls us."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


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
