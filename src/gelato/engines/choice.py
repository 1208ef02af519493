"""Engines by name. Each is imported only when it is asked for."""

from __future__ import annotations

from difflib import get_close_matches

from gelato.engines.base import Engine
from gelato.engines.local import ThreadEngine
from gelato.errors import UnknownNameError, UsageError

ENGINES = {
    "local": "threads of this process",
    "processes": "worker processes on this machine",
    "ray": "a Ray cluster, or Ray workers on this machine",
}


def make_engine(
    name: str, *, workers: int | None = None, address: str | None = None
) -> Engine:
    """Return an engine by name.

    Parameters
    ----------
    name : {"local", "processes", "ray"}
        Threads, worker processes, or a Ray cluster.
    workers : int, optional
        How many; as many as there are cores if not given.
    address : str, optional
        Of the Ray cluster, ``HOST:PORT`` or ``"auto"``; one is started on this
        machine if not given.

    Examples
    --------
    >>> make_engine("local", workers=2).workers
    2
    """
    if name not in ENGINES:
        near = get_close_matches(name, ENGINES, n=1)
        suggestion = f"Did you mean {near[0]!r}? " if near else ""
        raise UnknownNameError(
            f"There is no engine {name!r}.",
            hint=f"{suggestion}Engines are: {', '.join(ENGINES)}.",
        )
    if address is not None and name != "ray":
        raise UsageError(
            f"The engine {name!r} has no use for the address {address!r}.",
            hint='Clusters are reached by the engine "ray".',
        )
    if name == "local":
        return ThreadEngine(workers)
    if name == "processes":
        from gelato.engines.processes import ProcessEngine

        return ProcessEngine(workers)
    from gelato.engines.ray_engine import RayEngine

    return RayEngine(workers, address=address)
