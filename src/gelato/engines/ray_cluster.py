"""Work on a Ray cluster, or on Ray workers of this machine.

The driver reaches (or starts) the cluster quietly and in bounded time, puts what items
share into its object store once, and keeps a few tasks per worker in flight; a task
that was lost with its worker or its machine is done again. A worker keeps what items
share, works on one item at a time on one thread, and sends back a result or an error.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from gelato.engines.local import checked_workers, single_blas_thread
from gelato.errors import EngineError, MissingExtraError, UsageError
from gelato.version import __version__

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 10.0

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
            hint=f"{_join_hint(address)}Both sides need the same versions of Python "
            "and Ray, and the same token (RAY_AUTH_MODE=token) if the cluster asks for "
            f"one. {START_HINT}",
        ) from error


def _join_hint(address: str | None) -> str:
    """Return how this machine joins a cluster: a driver's own has to."""
    if address is None or address == "auto" or address.startswith("ray://"):
        return ""
    return (
        f"Has this machine joined? ray start --address={address} (with --num-cpus=0 "
        "if it should not work itself). "
    )


def check_address(address: str) -> None:
    """Refuse an address where nobody answers; Ray itself would wait for minutes."""
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
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
    except OSError as error:
        raise EngineError(
            f"No cluster answers at {address}: {error.strerror or error}.",
            hint=f"Is it running, and is the port open? {START_HINT}",
        ) from error


def _silence(ray: Any) -> None:
    """Send Ray's news of dead workers to our log.

    Ray prints them on standard output, where the command line's results go. What it
    prints with is private to Ray, so it may be gone in the next version.
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


Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")


MAX_ATTEMPTS = 4
"""How often a task may be lost with its worker or machine."""

_AHEAD_PER_WORKER = 2
# How long to wait between looks at the cluster, and for it to have a core at all.
_LOOK_SECONDS = 2.0
_EMPTY_SECONDS = 60.0


@dataclass(eq=False)
class _Task:
    """An item that is being worked on, in several places once a machine was lost."""

    item: bytes
    refs: list[Any]
    attempts: int = 1


class RayEngine:
    """Workers of a Ray cluster.

    Parameters
    ----------
    workers : int, optional
        Tasks at the same time, a core each; all cores of the cluster if not given.
    address : str, optional
        ``HOST:PORT`` of the cluster's head, or ``"auto"`` for the one that this
        machine belongs to. Without it, one is started here and stopped at the end.
    object_store_memory : int, optional
        Bytes of the object store of a cluster that is started here.
    """

    name = "ray"

    def __init__(
        self,
        workers: int | None = None,
        *,
        address: str | None = None,
        object_store_memory: int | None = None,
    ) -> None:
        self._asked = None if workers is None else checked_workers(workers)
        self.address = address
        self._ray = import_ray()
        # A cluster that the caller has joined already is used, and left alone.
        self._ours = not self._ray.is_initialized()
        if self._ours:
            local = checked_workers(workers) if address is None else None
            connect(self._ray, address, local, object_store_memory)
        self._task = _make_task(self._ray)
        self._lost_machines = self._dead_machines()

    @property
    def workers(self) -> int:
        """How many tasks run at the same time."""
        return self._asked or max(1, self._cores())

    def _window(self) -> int:
        """Return how many tasks may be in flight."""
        if self._asked is not None and self._asked < self._cores():
            return self._asked  # a task ahead would run on a core that nobody offered
        return self.workers * _AHEAD_PER_WORKER

    def _cores(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))

    def map(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Iterable[Item],
    ) -> Iterator[Result]:
        """Yield ``function(shared, item)`` in the order of the items."""
        ref = self._put(pack((function, shared), dumps=self._ray.cloudpickle.dumps))
        pending: deque[_Task] = deque()
        self._note_losses()

        def submit(item: bytes) -> Any:
            # In a list, the reference arrives as such: workers keep what it holds.
            return self._task.remote(__version__, [ref], item)

        try:
            window = self._window()
            for item in items:
                if len(pending) == window:
                    yield self._first(pending, submit)
                described = pickle.dumps(item, protocol=5)
                pending.append(_Task(described, [submit(described)]))
            while pending:
                yield self._first(pending, submit)
        finally:
            for task in pending:
                self._cancel(task.refs)

    def _cancel(self, refs: list[Any]) -> None:
        for ref in refs:
            self._ray.cancel(ref)

    def _put(self, pieces: list[Bytes]) -> Any:
        try:
            return self._ray.put(pieces)
        except self._ray.exceptions.RayError as error:
            size = sum(piece.nbytes for piece in pieces) / 2**20
            raise EngineError(
                f"The cluster has no room for {size:,.0f} MiB: {error}",
                hint="Give it more: ray start --object-store-memory=BYTES, and room "
                "on the disk of its temporary folder.",
            ) from error

    def _first(self, pending: deque[_Task], submit: Callable[[bytes], Any]) -> Any:
        """Return the result of the oldest task, redoing it where it was lost."""
        lost = self._lost_errors()
        task = pending[0]
        while True:
            ready = self._wait(pending, submit)
            task.refs.remove(ready)
            try:
                answer = self._ray.get(ready)
            except lost as error:
                if task.refs:
                    continue  # handed out again already
                if task.attempts == MAX_ATTEMPTS:
                    raise _given_up(error) from error
                logger.info("%s: its work is redone", type(error).__name__)
                task.attempts += 1
                task.refs.append(submit(task.item))
                continue
            except self._ray.exceptions.RayError as error:
                raise EngineError(
                    f"The cluster failed: {type(error).__name__}: {error}",
                    hint="What was recorded stays; the same command goes on from there "
                    "once the cluster is back.",
                ) from error
            self._cancel(task.refs)
            pending.popleft()
            return _checked(answer).get()

    def _lost_errors(self) -> tuple[type[Exception], ...]:
        known = self._ray.exceptions
        return (
            known.WorkerCrashedError,
            known.NodeDiedError,
            known.OutOfMemoryError,
            known.ObjectLostError,
        )

    def _wait(self, pending: deque[_Task], submit: Callable[[bytes], Any]) -> Any:
        """Return a reference of the oldest task that is ready, as a result or as lost.

        Now and then, look at the cluster: whether machines were lost, and whether it
        has anything left to work on.
        """
        empty_since = None
        while True:
            ready, _ = self._ray.wait(pending[0].refs, timeout=_LOOK_SECONDS)
            if ready:
                return ready[0]
            self._replace_lost(pending, submit)
            if self._cores() > 0:
                empty_since = None
                continue
            now = time.monotonic()
            empty_since = now if empty_since is None else empty_since
            if now - empty_since > _EMPTY_SECONDS:
                raise EngineError(
                    "The cluster has had no core to work on for a minute.",
                    hint="Add a machine: ray start --address=HOST:6379",
                )

    def _replace_lost(
        self, pending: deque[_Task], submit: Callable[[bytes], Any]
    ) -> None:
        """Hand out once more what is under way, if a machine was lost meanwhile.

        Ray's health checks tell of a machine that is gone. But a call to a machine
        whose link is cut, rather than closed, stays open for two to seven minutes
        (measured), and Ray does not tell which tasks wait for one. So all are handed
        out once more; the result that comes first counts, and both are the same.
        """
        if not self._note_losses():
            return
        refs = [ref for task in pending for ref in task.refs]
        ready = set(self._ray.wait(refs, num_returns=len(refs), timeout=0)[0])
        waiting = [task for task in pending if ready.isdisjoint(task.refs)]
        if waiting:
            logger.info("A machine was lost: %d pieces are redone", len(waiting))
        for task in waiting:
            task.refs.append(submit(task.item))

    def _note_losses(self) -> bool:
        """Return whether machines were lost since this was last asked."""
        dead = self._dead_machines()
        if dead <= self._lost_machines:
            return False
        self._lost_machines |= dead
        # Under its old name, a task waits for the core that a lost machine was asked
        # for, even where others are idle.
        self._task = _make_task(self._ray)
        return True

    def _dead_machines(self) -> set[str]:
        return {node["NodeID"] for node in self._ray.nodes() if not node["Alive"]}

    def close(self) -> None:
        """Leave the cluster, and stop it if it was started here."""
        if self._ours:
            self._ours = False
            self._ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _make_task(ray: Any) -> Any:
    """Return the task that workers run, handshake first.

    Being made inside a function, it is sent as code: it can tell of a worker whose
    package is missing or another version, where everything else would fail oddly.
    """

    def gelato_task(version: str, refs: Any, item: bytes) -> Any:
        import importlib
        import socket

        try:
            found = importlib.import_module("gelato.version").__version__
        except ImportError:
            found = None
        if found != version:
            return found, socket.gethostname()
        worker: Any = importlib.import_module("gelato.engines.ray_cluster")
        return worker.work(refs[0], item)

    return ray.remote(max_retries=0, num_cpus=1)(gelato_task)


def _checked(answer: Any) -> Any:
    """Return an outcome; a refused handshake is an error."""
    if not isinstance(answer, tuple):
        return answer
    found, host = answer
    seen = "is not installed" if found is None else f"has version {found}"
    raise EngineError(
        f"gelato {seen} on the machine {host}, and version {__version__} here.",
        hint="Results are only the same where all machines run the same version: "
        f"pip install gelato-lp=={__version__} on all of them.",
    )


def _given_up(error: Exception) -> EngineError:
    return EngineError(
        f"The same piece of work was lost {MAX_ATTEMPTS} times, on whatever machine: "
        f"{type(error).__name__}: {str(error).splitlines()[0]}",
        hint="Do the machines have enough memory? Give each worker more of it by "
        "running fewer at a time: --workers N.",
    )


Bytes = npt.NDArray[np.uint8]


def pack(value: Any, *, dumps: Callable[..., bytes] = pickle.dumps) -> list[Bytes]:
    """Take a value apart into a description and its arrays, without copying them.

    Parameters
    ----------
    value : object
        Anything that can be sent to another process.
    dumps : callable
        What describes it; a cluster's own also takes functions made on the fly.
    """
    arrays: list[pickle.PickleBuffer] = []
    try:
        described = dumps(value, protocol=5, buffer_callback=arrays.append)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"This work cannot be sent to other processes: {error}.",
            hint="Use the local engine, or define the scorer's functions and classes "
            "at the top of a module.",
        ) from error
    pieces: list[Any] = [described, *(array.raw() for array in arrays)]
    return [np.frombuffer(piece, dtype=np.uint8) for piece in pieces]


def unpack(pieces: list[Bytes]) -> Any:
    """Put a value together again; its arrays are views of the pieces."""
    described, *arrays = map(_as_writable, pieces)
    return pickle.loads(described.data, buffers=arrays)  # noqa: S301 - our own driver's


class _Writable:
    """Memory that is offered as if it could be written to."""

    def __init__(self, array: Bytes) -> None:
        self.array = array
        self.__array_interface__ = {
            **array.__array_interface__,
            "data": (array.__array_interface__["data"][0], False),
        }


def _as_writable(array: Bytes) -> Bytes:
    """Return the same memory, not marked as read-only.

    Compiled kernels are made anew for read-only arrays, which takes many seconds.
    Nothing in a worker writes to what is shared.
    """
    return np.asarray(_Writable(array))


# What the steps of a training share stays, while what one step shares comes and goes.
_KEPT = 2

_kept: OrderedDict[Hashable, Any] = OrderedDict()


@dataclass(frozen=True)
class Outcome:
    """What became of an item: its result, or the error that it ended with."""

    result: Any = None
    error: Exception | None = None

    def get(self) -> Any:
        """Return the result or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result


def recall(key: Hashable, load: Callable[[], Any]) -> Any:
    """Return what was kept under a key, loading it if need be."""
    if key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    while len(_kept) >= _KEPT:
        _kept.popitem(last=False)
    value = _kept[key] = load()
    return value


def work(ref: Any, item: bytes) -> Outcome:
    """Work, in a worker, on an item with what lies in the object store.

    Parameters
    ----------
    ref : ray.ObjectRef
        The packed function and what it shares: fetched once per machine, and read by
        its workers where it lies.
    item : bytes
        The packed item.
    """
    # One thread each: as many workers run as there are cores.
    os.environ["GELATO_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    get = import_ray().get
    return perform(ref.hex(), lambda: unpack(get(ref)), item)


def perform(key: Hashable, load: Callable[[], Any], item: bytes) -> Outcome:
    """Work on one item with what ``load`` returns: a function, and what it shares."""
    try:
        function, shared = recall(key, load)
        with single_blas_thread():
            given = pickle.loads(item)  # noqa: S301 - our own driver's
            return Outcome(function(shared, given))
    except Exception as error:
        return Outcome(error=_sendable(error))


def _sendable(error: Exception) -> Exception:
    """Return an error that survives the way to the driver."""
    try:
        same = type(pickle.loads(pickle.dumps(error))) is type(error)  # noqa: S301
    except Exception:
        same = False
    if same:
        return error
    return EngineError(f"A worker failed with {type(error).__name__}: {error}")
