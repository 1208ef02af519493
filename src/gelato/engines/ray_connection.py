"""Reach a Ray cluster, or start one on this machine, quietly and in bounded time."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from gelato.errors import EngineError, MissingExtraError

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 10.0
# How every client of HTTP/2, which Ray's servers speak, begins; with empty settings.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS = 4

# Nothing is sent anywhere; Ray 2 need not warn of what Ray 3 will do; on a machine with
# its cores busy, starting takes more than Ray's half a minute.
_SETTINGS_OF_RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_agent_register_timeout_ms": "120000",
}

START_HINT = "Start one with: ray start --head --port=6379"


def import_ray() -> Any:
    """Return the package, or say how to install it."""
    for name, value in _SETTINGS_OF_RAY.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray", "The Ray engine") from error
    return ray


def connect(
    ray: Any,
    address: str | None,
    workers: int | None,
    object_store_memory: int | None,
) -> None:
    """Join the cluster at an address, or start one here if there is no address."""
    _silence(ray)
    options: dict[str, Any] = {
        "address": "local" if address is None else address,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    if address is None:
        options |= {
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": object_store_memory,
        }
    else:
        check_address(address)
    try:
        ray.init(**options)
    except Exception as error:
        where = "on this machine" if address is None else f"at {address}"
        raise EngineError(
            f"Ray {where} cannot be used: {_first_line(error)}",
            hint="Both sides need the same versions of Python and Ray, and the same "
            f"token (RAY_AUTH_MODE=token) if the cluster asks for one. {START_HINT}",
        ) from error


def check_address(address: str) -> None:
    """Refuse an address where no Ray answers; Ray itself would wait for minutes."""
    if address in ("auto", "local") or os.environ.get("RAY_USE_TLS", "0") != "0":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise EngineError(
            f"{address!r} is not the address of a cluster.",
            hint="Give HOST:PORT, for example 10.0.0.5:6379, or auto for the cluster "
            "that this machine belongs to.",
        )
    try:
        with socket.create_connection((host, int(port)), _ANSWER_SECONDS) as line:
            line.settimeout(_ANSWER_SECONDS)
            line.sendall(_HELLO)
            answer = line.recv(9)
    except OSError as error:
        raise EngineError(
            f"No cluster answers at {address}: {error.strerror or error}.",
            hint=f"Is it running, and is the port open? {START_HINT}",
        ) from error
    if len(answer) < 4 or answer[3] != _SETTINGS:
        raise EngineError(
            f"What answers at {address} is not a Ray cluster.",
            hint="The port of 'ray start --head' is 6379 by default.",
        )


def _silence(ray: Any) -> None:
    """Send Ray's news of dead workers to our log.

    Ray prints them on standard output, where the command line's results go.
    """
    inside: Any = getattr(getattr(ray, "_private", None), "worker", None)
    if hasattr(inside, "print_to_stdstream"):
        inside.print_to_stdstream = _log_news


def _log_news(data: dict[str, Any], ignore_prefix: bool = False) -> None:
    for line in data.get("lines", ()):
        logger.info("Ray: %s", line)


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
