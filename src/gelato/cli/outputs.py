"""Places for results, tried before the work and not after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from gelato.errors import OutputError, UsageError

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".json", ".jsonl")


def check_output_file(path: Path | None, suffixes: tuple[str, ...]) -> None:
    """Raise unless a file of a known suffix can be written; ``None`` is fine."""
    if path is None:
        return
    if path.is_dir():
        raise OutputError(
            f"{path} is a directory.", hint="Name a file inside it, with a suffix."
        )
    if path.suffix.lower() not in suffixes:
        raise UsageError(
            f"{path}: the suffix {path.suffix!r} is not known.",
            hint=f"Choose one of: {', '.join(suffixes)}.",
        )
    folder = path.parent
    if not folder.is_dir():
        raise OutputError(
            f"{path} cannot be written: there is no folder {folder}.",
            hint="Create the folder first.",
        )
    _try_folder(folder)


def check_output_folder(path: Path) -> None:
    """Raise unless files can be written to a folder, which is made if need be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OutputError(
            f"{path} is a file, not a folder.", hint="Name another folder."
        ) from None
    except OSError as error:
        raise OutputError(
            f"The folder {path} cannot be made: {error.strerror or error}.",
            hint="Name a folder that you may write to.",
        ) from error
    _try_folder(path)


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Make a folder for what is to come, and keep other writers out of it.

    An empty one does not outlive a failure.
    """
    from gelato.io.locking import locked_folder

    existed = path.exists()
    check_output_folder(path)
    try:
        with locked_folder(path):
            yield
    except BaseException:
        if not existed:
            with suppress(OSError):  # not empty: a checkpoint stays
                path.rmdir()
        raise


def _try_folder(folder: Path) -> None:
    # Only writing tells: rights, read-only disks and full ones have no common test.
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(b"gelato")
    except OSError as error:
        raise OutputError(
            f"Nothing can be written to the folder {folder}: "
            f"{error.strerror or error}.",
            hint="Name a folder that you may write to.",
        ) from error
