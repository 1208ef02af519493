"""Stored folders back to models: the one place where names become classes."""

from __future__ import annotations

import os
from typing import Any

from gelato.errors import GelatoError, StoredFileError
from gelato.models.registry import make
from gelato.storage import read_run


def load(folder: str | os.PathLike[str]) -> Any:
    """Return the model that a run folder holds, ready to score.

    Parameters
    ----------
    folder : path
        Written by ``model.save(folder)`` or ``gelato fit``.
    """
    run = read_run(folder)
    try:
        model = make(run.model, **run.parameters)
        model.check_parameters()
    except GelatoError as error:
        raise StoredFileError(
            f"{folder} holds a model that this version cannot make: {error.problem}",
            hint=error.hint or "Install the version of gelato that wrote it.",
        ) from error
    model.graph_, model.split_ = run.graph, run.split
    model.validation_counts_ = run.validation
    model._restore(run)
    return model
