"""What a validation computed and the next training step needs too."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn


class Ahead:
    """Keeps one differentiable value from a validation to the step after it.

    Between the two no parameter changes, so that whatever dropout does not touch is
    computed once. The value and what its gradient needs live as long as this object.

    Examples
    --------
    >>> ahead, weight = Ahead(), nn.Parameter(torch.ones(2))
    >>> found = ahead.value(lambda: 2 * weight, [weight], training=False)
    >>> ahead.value(lambda: 3 * weight, [weight], training=True).tolist()
    [2.0, 2.0]
    """

    def __init__(self) -> None:
        self._known: tuple[list[tuple[int, int]], Tensor] | None = None

    def value(
        self,
        compute: Callable[[], Tensor],
        parameters: Iterable[nn.Parameter],
        *,
        training: bool,
    ) -> Tensor:
        """Return a value, computed anew if a parameter has changed since.

        Parameters
        ----------
        compute : callable
            Gives the value: always the same for the same parameters.
        parameters : iterable of Parameter
            All that it depends on.
        training : bool
            Whether the value's gradient is asked for: then it is given away.
        """
        # Every change in place counts up a parameter's version.
        now = [(id(parameter), parameter._version) for parameter in parameters]
        known, self._known = self._known, None
        if training:
            return known[1] if known is not None and known[0] == now else compute()
        with torch.enable_grad():
            found = compute()
        self._known = (now, found)
        return found.detach()
