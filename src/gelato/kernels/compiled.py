"""Loops that numba compiles, when they are first needed.

Importing numba and preparing its compiler takes longer than reading a small file and
ranking its pairs. A kernel is therefore a placeholder until the first call with more
than a few numbers; then all placeholders give way to compiled functions at once. With
few numbers it runs as plain Python, for a moment. Both give the same bits: kernels
whose arithmetic numba may rearrange (``fastmath``) are always compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property, update_wrapper
from threading import RLock
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

_FEW = 10_000
"""Numbers in all arrays of a call, up to which plain Python may be quick enough."""
_SECONDS = 0.2
"""After so long in plain Python, compiled kernels would have been quicker."""
_LONG = 60.0  # seconds: far more than replacing takes
_one_at_a_time = RLock()


class Kernel:
    """A function that is compiled at the first large call of any kernel.

    Parameters
    ----------
    function : callable
        Written for numba.
    options : dict
        Of ``numba.njit``.
    """

    waiting: ClassVar[bool] = True
    seconds: ClassVar[float] = 0.0

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.function, self.options = function, options

    def __call__(self, *arguments: Any) -> Any:
        """Run, compiled unless there are few numbers."""
        if Kernel.waiting and "fastmath" not in self.options:
            sizes = (x.size for x in arguments if isinstance(x, np.ndarray))
            if sum(sizes) <= _FEW and Kernel.seconds < _SECONDS:
                began = perf_counter()
                # Integers wrap around in compiled code, without a word.
                with np.errstate(over="ignore"):
                    result = self.function(*arguments)
                Kernel.seconds += perf_counter() - began
                return result
        compile_all()
        return self.compiled(*arguments)

    @cached_property
    def compiled(self) -> Any:
        """The function as numba compiles it."""
        import numba

        # Nobody hands kernels on as values: no wrapper is compiled for that.
        made = numba.njit(
            cache=True, nogil=True, no_cfunc_wrapper=True, **self.options
        )(self.function)
        return _without_literals(made)


def _without_literals(made: Any) -> Any:
    """Let kernels that call this one with a constant share what is compiled.

    To numba, 0 and 1 have types of their own, and so has the 0 that a loop starts to
    count from: it would compile a function for each, many of which never run.
    """
    from numba.core.types.misc import unliteral

    usual = made.get_call_template

    def shared(args: Any, kws: Any) -> Any:
        plain = {name: unliteral(kind) for name, kind in kws.items()}
        return usual(tuple(map(unliteral, args)), plain)

    made.get_call_template = shared
    return made


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Declare a function that numba compiles; options are those of ``numba.njit``."""

    def declare(function: Callable[..., Any]) -> Any:
        made = Kernel(function, options)
        return made if Kernel.waiting else made.compiled

    return declare


def compile_all() -> None:
    """Replace every placeholder, in all modules that know it, by what numba compiles.

    A compiled function may call others only by names that lead to compiled ones.
    """
    with _one_at_a_time:
        if not Kernel.waiting:
            return
        found = [
            (vars(module), name, value.compiled)
            for module in list(sys.modules.values())
            for name, value in list(getattr(module, "__dict__", {}).items())
            if type(value) is Kernel  # isinstance would wake other packages' proxies
        ]
        # At once: no thread may meet a compiled function that calls a placeholder.
        usual = sys.getswitchinterval()
        sys.setswitchinterval(_LONG)
        for names, name, compiled in found:
            names[name] = compiled
        Kernel.waiting = False
        sys.setswitchinterval(usual)
