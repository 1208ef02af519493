"""Topological and attribute heuristics, each a scorer of rows of pairs.

One file per family; a function with the decorator of
:mod:`gelato.heuristics.declared` is a heuristic, here and in the registry of models.
Importing this package imports none of them: names load when first used.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    from gelato.heuristics.declared import listed

    for one in listed().values():
        if one.function == name:
            return getattr(importlib.import_module(one.module), name)
    raise AttributeError(f"module 'gelato.heuristics' has no attribute {name!r}")
