"""What an engine is, and which one is in use.

An engine maps a function over ordered items (blocks of rows, whole runs), with what
all items share put in place once. The engine in use is ambient: ranking asks
:func:`map_shared`, and whoever wants another place for the work says so once, around
it. Threads of this process are the default, and what workers themselves use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from functools import partial
from typing import Protocol, Self, TypeVar

from gelato.engines.local import ThreadEngine, map_ordered
from gelato.errors import UnknownNameError, UsageError

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(Protocol):
    """Somewhere to work. Results never depend on the engine or on its workers."""

    name: str

    @property
    def workers(self) -> int:
        """How many items are worked on at the same time."""
        ...

    def map(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Iterable[Item],
    ) -> Iterator[Result]:
        """Yield ``function(shared, item)`` in the order of the items.

        ``shared`` is put in place once. Items are consumed lazily, a few ahead of the
        results, so that an item may depend on results seen so far.
        """
        ...

    def close(self) -> None:
        """Stop what the engine started."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


_in_use: ContextVar[Engine | None] = ContextVar("engine", default=None)


def current_engine() -> Engine | None:
    """Return the engine in use here, ``None`` for the threads of this process."""
    return _in_use.get()


@contextmanager
def use_engine(engine: Engine | str | None) -> Iterator[Engine | None]:
    """Let everything inside run on an engine.

    Parameters
    ----------
    engine : Engine, str or None
        An engine stays open: whoever made it closes it. A name makes one that is
        closed at the end. ``None`` changes nothing.

    Examples
    --------
    >>> with use_engine("local"):
    ...     list(map_shared(pow, 2, [3, 4]))
    [8, 16]
    """
    if engine is None:
        yield _in_use.get()
        return
    if isinstance(engine, str):
        with make_engine(engine) as made, use_engine(made):
            yield made
        return
    token = _in_use.set(engine)
    try:
        yield engine
    finally:
        _in_use.reset(token)


def map_shared(
    function: Callable[[Shared, Item], Result],
    shared: Shared,
    items: Iterable[Item],
) -> Iterator[Result]:
    """Yield ``function(shared, item)`` in order, on the engine in use.

    Parameters
    ----------
    function : callable
        Defined at the top of a module, so that other processes find it.
    shared : object
        What all items need: put in place once.
    items : iterable
        Consumed lazily, a few ahead of the results.
    """
    engine = _in_use.get()
    if engine is None:
        return map_ordered(partial(function, shared), items)
    return engine.map(function, shared, items)


ENGINES = {
    "local": "threads of this process",
    "ray": "a Ray cluster, or Ray workers on this machine",
}


def make_engine(
    name: str, *, workers: int | None = None, address: str | None = None
) -> Engine:
    """Return an engine by name.

    Parameters
    ----------
    name : {"local", "ray"}
        Threads, or a Ray cluster.
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
    if name == "processes":
        raise UsageError(
            'The engine "processes" is gone: "ray" starts workers on this machine.'
        )
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
    from gelato.engines.ray_cluster import RayEngine

    return RayEngine(workers, address=address)
