"""Where blocks of rows run: this process (more engines plug in here)."""

from gelato.engines.blas import single_blas_thread
from gelato.engines.local import default_threads, map_ordered

__all__ = ["default_threads", "map_ordered", "single_blas_thread"]
