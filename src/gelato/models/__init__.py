"""Every predictor, behind one interface and one registry.

Names resolve here without importing a model; ``gelato.load`` is in ``loading``.
"""

from gelato.models.registry import make, model_names, register, unregister

__all__ = ["make", "model_names", "register", "unregister"]
