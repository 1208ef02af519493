"""Ids and numbers as plain data: what JSON can hold, and nothing that breaks it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def plain_id(value: Any) -> str | int:
    """Return a node id as JSON has it: whole numbers and texts stay what they are."""
    item = value.item() if isinstance(value, np.generic) else value
    if isinstance(item, str):
        # Lone surrogates cannot be written in any encoding.
        return item.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    return str(item)


def plain(value: Any) -> Any:
    """Return nested data without numpy's types, tuples and numbers that are not."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    return plain_id(value)
