"""Fetch raw benchmark files into the cache folder, each checked by its sha256.

Everything comes over HTTP through pooch, which writes to a temporary file and moves
it into place only if the hash is right: a cut transfer leaves nothing behind.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gelato.datasets.catalog import Dataset, RawFile
from gelato.errors import MissingDataError, OutputError, StoredFileError, UsageError

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
