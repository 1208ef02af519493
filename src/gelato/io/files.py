"""Bytes from disk, with every way a path can disappoint turned into one message.

This module knows paths, compression and text encodings, and nothing about tables.
"""

from __future__ import annotations

import difflib
import gzip
import zlib
from pathlib import Path

from gelato.errors import InputError


def read_bytes(path: Path) -> bytes:
    """Return the content of a file that exists, is a file and is not empty."""
    try:
        if path.is_dir():
            raise InputError(
                f"{path} is a directory, not a file.", hint="Name a file inside it."
            )
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.", hint=_nearest(path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{path} cannot be read: {reason}.", hint="Check the path and its rights."
        ) from error
    if not data:
        raise InputError(f"{path} is empty.", hint="Write or export the file again.")
    return data


def _nearest(path: Path) -> str:
    folder = path.parent
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return f"The folder {folder} does not exist either."
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    if near:
        return f"Did you mean {folder / near[0]}?"
    return "Check the name and the folder."


def gunzip(data: bytes, path: Path) -> bytes:
    """Decompress gzip data, or say that it is damaged."""
    try:
        plain = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{path} is not a complete gzip file: {error}.",
            hint="Copy or download it again.",
        ) from error
    if not plain:
        raise InputError(f"{path} is empty.", hint="Write or export the file again.")
    return plain


def decode(data: bytes, path: Path) -> str:
    """Return text from UTF-8, or from UTF-16 that starts with a byte-order mark.

    Nothing is guessed: another encoding raises with the line of its first byte that
    is not UTF-8.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _decode_utf16(data, path)
    head = data.removeprefix(b"\xef\xbb\xbf")
    zero = head.find(b"\0")
    if zero >= 0:
        raise InputError(
            f"{path}, line {_line_at(head, zero)}: a zero byte, so this is not text.",
            hint="Give a csv, tsv or txt file, or Parquet with the suffix .parquet.",
        )
    try:
        return head.decode("utf-8")
    except UnicodeDecodeError as error:
        line = _line_at(head, error.start)
        raise InputError(
            f"{path}, line {line}: the byte 0x{head[error.start]:02x} is not UTF-8.",
            hint="Save the file as UTF-8 (from Latin-1: iconv -f latin1 -t utf-8).",
        ) from None


def _decode_utf16(data: bytes, path: Path) -> str:
    try:
        text = data.decode("utf-16")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} starts like UTF-16 text but is damaged: {error.reason}.",
            hint="Save the file as UTF-8.",
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(
            f"{path}, line {line}: a zero character, so this is not text.",
            hint="Save the file as UTF-8 text.",
        )
    return text


def _line_at(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1
