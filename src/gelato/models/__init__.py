"""Every predictor, behind one interface and one registry."""

from gelato.models.loading import load
from gelato.models.registry import make, model_names, register, unregister

__all__ = ["load", "make", "model_names", "register", "unregister"]
