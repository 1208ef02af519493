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
_ANEW = "Delete it to start the training anew."
_FIELDS = ("identity", "epoch", "history", "best_value", "best_epoch", "skipped")


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


@dataclass(frozen=True)
class Snapshot:
    """All that a checkpoint holds, copied so that training may go on."""

    header: dict[str, Any]
    tensors: dict[str, Tensor]

    @classmethod
    def take(
        cls,
        module: nn.Module,
        optimiser: optim.Optimizer,
        progress: Progress,
        identity: dict[str, Any],
    ) -> Snapshot:
        """Copy the state of a training.

        Parameters
        ----------
        module, optimiser
            What is trained.
        progress : Progress
            How far it has come.
        identity : dict
            What must be equal for a training to be resumed: settings, split, seed.
        """
        tensors = {f"module.{name}": x for name, x in module.state_dict().items()}
        for index, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{name}": state[name] for name in state}
        copies = {name: value.detach().clone() for name, value in tensors.items()}
        best = {f"best.{name}": value for name, value in progress.best_state.items()}
        header = {
            "kind": _KIND,
            "format": FORMAT,
            "identity": identity,
            "epoch": progress.epoch,
            "history": list(progress.history),
            "best_value": progress.best_value,
            "best_epoch": progress.best_epoch,
            "skipped": progress.skipped,
        }
        return cls(header, copies | best)

    def write(self, path: Path) -> None:
        """Write the checkpoint in one atomic step; the one before it stays or goes."""
        content = save(self.tensors, metadata={"gelato": json.dumps(self.header)})
        try:
            write_bytes_atomic(path, content)
        except OutputError as error:
            hint = "Make room, or choose another folder, and start again."
            if path.exists():
                hint = "The checkpoint before it is intact: make room and resume."
            raise OutputError(
                f"The checkpoint after epoch {self.header['epoch']} was not written: "
                f"{error.problem}",
                hint=hint,
            ) from error


def load_checkpoint(
    path: Path,
    module: nn.Module,
    optimiser: optim.Optimizer,
    identity: dict[str, Any],
) -> Progress:
    """Put a module and its optimiser back to where a checkpoint left them."""
    header, tensors = _read(path)
    _refuse_other(path, header["identity"], identity)
    try:
        module.load_state_dict(_part(tensors, "module."))
        optimiser.load_state_dict(
            {
                "state": _optimiser_state(tensors),
                "param_groups": optimiser.state_dict()["param_groups"],
            }
        )
    except (RuntimeError, ValueError, KeyError) as error:
        raise StoredFileError(
            f"{path} does not fit the model: {error}", hint=_ANEW
        ) from error
    return Progress(
        epoch=header["epoch"],
        history=header["history"],
        best_value=header["best_value"],
        best_epoch=header["best_epoch"],
        best_state=_part(tensors, "best."),
        skipped=header["skipped"],
    )


def _refuse_other(path: Path, stored: dict[str, Any], ours: dict[str, Any]) -> None:
    """Raise unless a checkpoint is of this training, naming the first difference.

    What the checkpoint does not name did not exist when it was written.
    """
    plain = json.loads(json.dumps(ours))
    for key in sorted(stored):
        if stored[key] != plain.get(key):
            raise StoredFileError(
                f"{path} belongs to another training: its {key} is {stored[key]!r}, "
                f"not {plain.get(key)!r}.",
                hint="Resume with the same settings, or start anew in another folder.",
            )


def _optimiser_state(tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in _part(tensors, "optimiser.").items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = value
    return state


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
            f"{path} cannot be read as a checkpoint: {error}.", hint=_ANEW
        ) from error
    if not isinstance(header, dict) or header.get("kind") != _KIND:
        raise StoredFileError(f"{path} is not a checkpoint of gelato.", hint=_ANEW)
    if header.get("format") != FORMAT:
        raise StoredFileError(
            f"{path} has format {header.get('format')}; this version reads {FORMAT}.",
            hint="Resume with the version of gelato that wrote it, or delete it.",
        )
    missing = [name for name in _FIELDS if name not in header]
    if missing:
        raise StoredFileError(f"{path} lacks its {missing[0]}.", hint=_ANEW)
    return header, tensors
