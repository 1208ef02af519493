"""Checkpoints: one file of plain data, replaced whole or not at all.

Everything random in training follows from the seed and counters, so weights,
optimiser state, best weights and history are all that resuming needs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn, optim

from gelato.errors import OutputError, StoredFileError
from gelato.io import write_bytes_atomic

FORMAT = 1
_KIND = "gelato checkpoint"


@dataclass
class Progress:
    """How far a training has come.

    Parameters
    ----------
    epoch : int
        Epochs completed.
    history : list of dict
        One entry per epoch.
    best_value : float, optional
        Best validation value so far.
    best_epoch : int
        Epoch of the best value, 0 before the first.
    best_state : dict of Tensor
        The module's state at that epoch.
    skipped : int
        Steps skipped because a gradient was not finite.
    """

    epoch: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_value: float | None = None
    best_epoch: int = 0
    best_state: dict[str, Tensor] = field(default_factory=dict)
    skipped: int = 0


def save_checkpoint(
    path: Path,
    module: nn.Module,
    optimiser: optim.Optimizer,
    progress: Progress,
    identity: dict[str, Any],
) -> None:
    """Write a checkpoint in one atomic step.

    Parameters
    ----------
    path : Path
        Where to.
    module, optimiser
        What is trained.
    progress : Progress
        How far it has come.
    identity : dict
        What must be equal for a training to be resumed: settings, split, seed.
    """
    tensors = {f"module.{name}": value for name, value in module.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in progress.best_state.items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{name}": state[name] for name in state}
    header = {
        "kind": _KIND,
        "format": FORMAT,
        "identity": identity,
        "epoch": progress.epoch,
        "history": progress.history,
        "best_value": progress.best_value,
        "best_epoch": progress.best_epoch,
        "skipped": progress.skipped,
    }
    # Clones: safetensors refuses tensors that share memory.
    plain = {name: value.detach().clone() for name, value in tensors.items()}
    content = save(plain, metadata={"gelato": json.dumps(header)})
    try:
        write_bytes_atomic(path, content)
    except OSError as error:
        raise OutputError(
            f"The checkpoint after epoch {progress.epoch} could not be written to "
            f"{path}: {error}",
            hint="The checkpoint before it is intact: make room and resume.",
        ) from error


def load_checkpoint(
    path: Path,
    module: nn.Module,
    optimiser: optim.Optimizer,
    identity: dict[str, Any],
) -> Progress:
    """Put a module and its optimiser back to where a checkpoint left them."""
    header, tensors = _read(path)
    differing = [
        key
        for key in sorted({*identity, *header["identity"]})
        if json.loads(json.dumps(identity.get(key))) != header["identity"].get(key)
    ]
    if differing:
        key = differing[0]
        raise StoredFileError(
            f"{path} belongs to another training: its {key} is "
            f"{header['identity'].get(key)!r}, not {identity.get(key)!r}.",
            hint="Resume with the same settings, or start anew in another folder.",
        )
    module.load_state_dict(_part(tensors, "module."))
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in _part(tensors, "optimiser.").items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})
    return Progress(
        epoch=header["epoch"],
        history=header["history"],
        best_value=header["best_value"],
        best_epoch=header["best_epoch"],
        best_state=_part(tensors, "best."),
        skipped=header["skipped"],
    )


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("gelato", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise StoredFileError(
            f"{path} cannot be read as a checkpoint: {error}",
            hint="Delete it to start the training anew.",
        ) from error
    if header.get("kind") != _KIND:
        raise StoredFileError(f"{path} is not a checkpoint of gelato.")
    if header["format"] > FORMAT:
        raise StoredFileError(
            f"{path} has format {header['format']}, newer than the {FORMAT} that this "
            "version reads.",
            hint="Install a newer gelato.",
        )
    return header, tensors
