"""Where blocks of rows run: this process (more engines plug in here)."""

from gelato.engines.blas import single_blas_thread
from gelato.engines.local import map_ordered
from gelato.kernels.chunks import default_threads

__all__ = ["default_threads", "map_ordered", "single_blas_thread"]
