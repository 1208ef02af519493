"""Search for the parameters of a model that rank the validation edges best.

Which parameters are searched is in ``spaces``, in which order in ``searches``; one
trial is in ``trial``, what is kept on disk in ``study``; ``trial_loop`` runs them.
"""

from gelato.parameters import Dimension
from gelato.tuning.result import Tuned, TuningInterrupted
from gelato.tuning.trial_loop import tune

__all__ = ["Dimension", "Tuned", "TuningInterrupted", "tune"]
