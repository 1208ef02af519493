"""Every predictor, behind one interface and one registry."""

from gelato.models.registry import make, model_names, register, unregister

__all__ = ["make", "model_names", "register", "unregister"]
