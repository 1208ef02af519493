"""Words for messages and notes."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, for example "1 node" or "2,000 nodes"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
