"""Where blocks of rows run: threads of this process, or Ray workers."""

from gelato.engines.engine import (
    ENGINES,
    Engine,
    current_engine,
    make_engine,
    map_shared,
    use_engine,
)
from gelato.engines.local import ThreadEngine, map_ordered, single_blas_thread
from gelato.kernels.chunks import default_threads, set_threads, use_threads

__all__ = [
    "ENGINES",
    "Engine",
    "ThreadEngine",
    "current_engine",
    "default_threads",
    "make_engine",
    "map_ordered",
    "map_shared",
    "set_threads",
    "single_blas_thread",
    "use_engine",
    "use_threads",
]
