"""Files that appear complete or not at all.

The bytes go to a new file in the same folder, which then takes the place of the old
one in a single step. On any failure the new file is removed and the old one stays.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path

from gelato.errors import OutputError


def write_bytes_atomic(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write bytes to a file, completely or not at all.

    Raises
    ------
    OutputError
        With the path and the reason; nothing half-written is left behind.
    """
    try:
        target = Path(path).resolve()  # a link keeps pointing to the written file
        _refuse_unwritable(target, path)
        _replace(target, data)
    except (OSError, ValueError) as error:
        if isinstance(error, OutputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise OutputError(
            f"{path} cannot be written: {reason}.",
            hint="Choose another place, or check its rights and free space.",
        ) from error
    return Path(path)


def write_text_atomic(path: str | os.PathLike[str], text: str) -> Path:
    """Write UTF-8 text to a file, completely or not at all."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise OutputError(
            f"{path} cannot be written: the text holds {error.object[error.start]!r}, "
            "which is no character.",
            hint="Mend the ids or names that it comes from.",
        ) from None
    return write_bytes_atomic(path, data)


def _refuse_unwritable(target: Path, path: str | os.PathLike[str]) -> None:
    if target.is_dir():
        raise OutputError(
            f"{path} is a directory.", hint="Name a file inside it, with a suffix."
        )
    if not target.parent.is_dir():
        raise OutputError(
            f"{path} cannot be written: there is no folder {target.parent}.",
            hint="Create the folder first.",
        )
    if target.exists() and not target.is_file():
        raise OutputError(f"{path} is not a file.", hint="Name a file.")
    if target.exists() and not os.access(target, os.W_OK):
        raise OutputError(
            f"{path} is write-protected.", hint="Choose another name or change it."
        )


def _replace(target: Path, data: bytes) -> None:
    # Not tempfile: its files are private, while a result should follow the umask.
    name = f".{target.name[:100]}.{secrets.token_hex(6)}.tmp"
    temporary = target.with_name(name)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
