"""Worker processes of this machine, with one copy of what they share.

Threads are cheaper and the default: kernels release the interpreter lock. Processes
pay for scorers written in Python, and for whole runs side by side. Workers are
started afresh (never forked, which is unsafe with threads alive), once per engine.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from gelato.engines.local import checked_workers
from gelato.engines.packing import Packed, Span, pack
from gelato.engines.process_worker import Message, serve
from gelato.engines.worker import Outcome
from gelato.errors import EngineError, UsageError

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
"""Workers that may die at the same piece of work before the engine gives up."""

_AHEAD_PER_WORKER = 2


@dataclass(eq=False)
class _Job:
    place: int
    message: Message
    attempts: int = 0


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    job: _Job | None = None


class ProcessEngine:
    """Worker processes on this machine.

    Parameters
    ----------
    workers : int, optional
        How many; as many as there are cores if not given.
    """

    name = "processes"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = checked_workers(workers)
        self._context = multiprocessing.get_context("spawn")
        self._crew: list[_Worker] = []
        self._folder: str | None = None
        self._remove: Callable[[], Any] = list
        self._mapping = False
        self._stored = 0

    def map(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Iterable[Item],
    ) -> Iterator[Result]:
        """Yield ``function(shared, item)`` in the order of the items."""
        if self._mapping:
            raise UsageError(
                "These worker processes are at work already.",
                hint="Finish one map before the next, or make a second engine.",
            )
        packed = pack((function, shared))
        self._mapping = True
        path = None
        try:
            path = self._store(packed)
            flow = _Flow(str(path), packed.spans, items, self.workers)
            yield from self._run(flow)
        finally:
            self._mapping = False
            if path is not None:
                path.unlink(missing_ok=True)

    def _run(self, flow: _Flow) -> Iterator[Any]:
        while True:
            self._collect(flow, block=not flow.ready)
            self._hand_out(flow)
            if flow.ready:
                yield flow.take()
            elif flow.over:
                return

    def _hand_out(self, flow: _Flow) -> None:
        for worker in self._ready_crew():
            job = flow.next_job()
            if job is None:
                return
            worker.job = job
            try:
                worker.connection.send(job.message)
            except OSError:
                self._bury(worker, flow)

    def _ready_crew(self) -> Iterator[_Worker]:
        """Yield idle workers, starting new ones only when they are needed."""
        yield from [worker for worker in self._crew if worker.job is None]
        while len(self._crew) < self.workers:
            worker = self._hire()
            yield worker
            if worker.job is None:
                return

    def _hire(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=serve, args=(theirs, self._place()), daemon=True
        )
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._crew.append(worker)
        return worker

    def _collect(self, flow: _Flow, *, block: bool) -> None:
        """Take in what workers have sent; wait for something if told to."""
        busy = [worker for worker in self._crew if worker.job is not None]
        if not busy:
            return
        watched: list[Any] = [worker.connection for worker in busy]
        watched += [worker.process.sentinel for worker in busy]
        ready = wait(watched, timeout=None if block else 0)
        for worker in busy:
            if worker.connection in ready or worker.process.sentinel in ready:
                self._receive(worker, flow)

    def _receive(self, worker: _Worker, flow: _Flow) -> None:
        try:
            if not worker.connection.poll():
                raise EOFError
            # Bytes of our own worker, not of a file.
            outcome = pickle.loads(worker.connection.recv_bytes())  # noqa: S301
        except (EOFError, OSError):
            self._bury(worker, flow)
            return
        assert worker.job is not None
        flow.finish(worker.job, outcome)
        worker.job = None

    def _bury(self, worker: _Worker, flow: _Flow) -> None:
        """Let go of a worker that died; its work goes back."""
        worker.process.join()
        worker.connection.close()
        self._crew.remove(worker)
        code = worker.process.exitcode
        logger.info("a worker process ended with code %s; its work is redone", code)
        assert worker.job is not None
        flow.put_back(worker.job, f"exit code {code}")

    def _place(self) -> str:
        """Return the folder of shared memory, making it when first needed."""
        if self._folder is None:
            memory = "/dev/shm"  # noqa: S108 - mkdtemp makes a folder of our own in it
            inside = memory if os.access(memory, os.W_OK) else None
            folder = self._folder = tempfile.mkdtemp(prefix="gelato-", dir=inside)
            self._remove = weakref.finalize(self, shutil.rmtree, folder, True)
        return self._folder

    def _store(self, packed: Packed) -> Path:
        self._stored += 1
        path = Path(self._place()) / str(self._stored)
        try:
            with path.open("wb") as file:
                file.writelines(packed.chunks())
        except OSError as error:
            free = shutil.disk_usage(path.parent).free
            raise EngineError(
                f"{packed.size / 2**20:,.0f} MiB for worker processes cannot be "
                f"written to {path.parent}: {error.strerror} "
                f"({free / 2**20:,.0f} MiB free).",
                hint="Make room there, or use the local engine, whose threads share "
                "memory as it is.",
            ) from error
        return path

    def close(self) -> None:
        """End the workers and free what they shared."""
        for worker in self._crew:
            worker.connection.close()
            worker.process.terminate()
        for worker in self._crew:
            worker.process.join()
            worker.process.close()
        self._crew.clear()
        self._remove()
        self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Flow:
    """Items on their way through workers, and results on their way out, in order."""

    def __init__(
        self, path: str, spans: tuple[Span, ...], items: Iterable[Any], workers: int
    ) -> None:
        self._path, self._spans, self._items = path, spans, iter(items)
        self._window = workers * _AHEAD_PER_WORKER
        self._again: list[_Job] = []
        self._done: dict[int, Outcome] = {}
        self._started = self._taken = 0
        self._all_started = False

    @property
    def ready(self) -> bool:
        """Whether the next result is there."""
        return self._taken in self._done

    @property
    def over(self) -> bool:
        """Whether every item was started and every result taken."""
        return self._all_started and self._taken == self._started

    def take(self) -> Any:
        """Return the next result, or raise its error."""
        outcome = self._done.pop(self._taken)
        self._taken += 1
        return outcome.get()

    def next_job(self) -> _Job | None:
        """Return what should be worked on next, ``None`` if nothing should."""
        if self._again:
            self._again.sort(key=lambda job: job.place)
            return self._again.pop(0)
        if self._all_started or self._started - self._taken >= self._window:
            return None
        for item in self._items:
            message = Message(self._path, self._spans, pickle.dumps(item, protocol=5))
            self._started += 1
            return _Job(self._started - 1, message)
        self._all_started = True
        return None

    def finish(self, job: _Job, outcome: Outcome) -> None:
        """Keep a result; one of an earlier map that nobody waits for is dropped."""
        if job.message.path == self._path:
            self._done[job.place] = outcome

    def put_back(self, job: _Job, why: str) -> None:
        """Have a job done again, unless it has cost too many workers."""
        if job.message.path != self._path:
            return
        job.attempts += 1
        if job.attempts == MAX_ATTEMPTS:
            raise EngineError(
                f"{MAX_ATTEMPTS} worker processes died at the same piece of work "
                f"({why}).",
                hint="Is there enough memory? Use fewer workers. A script that uses "
                'processes must start its work under if __name__ == "__main__".',
            )
        self._again.append(job)
