"""Search for the parameters of a model that rank the validation edges best.

Which parameters are searched is in ``spaces``, in which order in ``searches``; one
trial is in ``trial``, what is kept on disk in ``study``, and ``tuner`` has the loop.
"""

from gelato.tuning.spaces import Dimension
from gelato.tuning.tuner import Tuned, TuningInterrupted, tune

__all__ = ["Dimension", "Tuned", "TuningInterrupted", "tune"]
