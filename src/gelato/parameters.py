"""Parameters: what they may be, said once, on the class that has them.

A class derived from :class:`Parametrised` declares each parameter by one line::

    class Walks(Parametrised):
        t: int = whole(3, least=1)
        loops: str = choice("isolated", ("isolated", "all"))

Constructor, ``get_params``, ``set_params``, ``repr`` and all checks follow from these
lines; a subclass changes a default by a plain value, ``t: int = 4``. Nothing here knows
what is predicted.
"""

from __future__ import annotations

import difflib
import inspect
import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from gelato.errors import UnknownNameError, UsageError
from gelato.text import builtin

SEARCHES = ("line", "grid", "free")
Check = Callable[[str, Any], None]


@dataclass(frozen=True)
class Parameter:
    """A parameter's default, and what is raised for a value that it cannot have.

    Parameters
    ----------
    default : object
        Its value where none is given.
    check : callable, optional
        Takes name and value and raises; default: anything goes.
    optional : bool
        Whether it may be None.
    """

    default: Any
    check: Check | None = None
    optional: bool = False

    def refuse(self, name: str, value: Any) -> None:
        """Raise unless the parameter may have a value."""
        if self.check is None or (value is None and self.optional):
            return
        try:
            self.check(name, builtin(value))
        except UsageError as error:
            hint = error.hint or f"Its default is {self.default!r}."
            raise type(error)(error.problem, hint=hint) from None


@dataclass(frozen=True)
class _Constant:
    value: Any


UNSET: Any = object()
"""Default of a parameter whose default stands elsewhere: in a function's signature."""


def whole(
    default: int | None = UNSET,
    *,
    least: int = 1,
    most: float = math.inf,
    optional: bool = False,
) -> Any:
    """Declare a whole number."""
    limit = f" and at most {most:g}" if math.isfinite(most) else ""

    def check(name: str, value: Any) -> None:
        if not _is(value, numbers.Integral) or not least <= value <= most:
            raise UsageError(
                f"{name} is {value!r}, but must be a whole number of at least "
                f"{least}{limit}."
            )

    return Parameter(default, check, optional or default is None)


def number(
    default: float | None = UNSET,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
    below: float = math.inf,
    optional: bool = False,
) -> Any:
    """Declare a finite number; ``above`` and ``below`` are open ends."""
    expected = _range(least, above, most, below)

    def check(name: str, value: Any) -> None:
        fits = _is(value, numbers.Real) and math.isfinite(value)
        if not (fits and least <= value <= most and above < value < below):
            raise UsageError(f"{name} is {value!r}, but must be a number{expected}.")

    return Parameter(default, check, optional or default is None)


def _range(least: float, above: float, most: float, below: float) -> str:
    """Say between which ends a number must be."""
    if math.isfinite(least) and math.isfinite(most):
        return f" from {least:g} to {most:g}"
    ends = [
        words.format(f"{end:g}")
        for words, end in (
            ("at least {}", least),
            ("above {}", above),
            ("at most {}", most),
            ("below {}", below),
        )
        if math.isfinite(end)
    ]
    if len(ends) == 1 and math.isfinite(least):
        return f" {least:g} or larger"
    return f" {' and '.join(ends)}" if ends else ""


def choice(
    default: Any = UNSET, names: Iterable[str] = (), *, optional: bool = False
) -> Any:
    """Declare one of some names; near ones are suggested for an unknown one."""

    def check(name: str, value: Any) -> None:
        # Asked for now: a table of names may have grown.
        refuse_unknown(name, value, names)

    return Parameter(default, check, optional or default is None)


def refuse_unknown(name: str, value: Any, known: Iterable[str]) -> None:
    """Raise unless the value of a parameter is one of some names."""
    listed = list(known)
    if value in listed:
        return
    near = difflib.get_close_matches(str(value), listed, n=1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownNameError(
        f"{name} is {value!r}, which is not known.{meant}",
        hint=f"Known: {', '.join(listed)}.",
    )


def several(names: Iterable[str]) -> Any:
    """Declare some of some names as one text with commas, by default none of them."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, str):
            raise UsageError(f"{name} is {value!r}, but must be a text.")
        for part in parts_of(value):
            refuse_unknown(name, part, names)

    return Parameter("", check)


def parts_of(text: str) -> tuple[str, ...]:
    """Return the names in a text with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def flag(default: bool | None = UNSET) -> Any:
    """Declare something that is true or false."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, bool):
            raise UsageError(f"{name} is {value!r}, but must be true or false.")

    return Parameter(default, check, default is None)


def function(default: Any, *names: str) -> Any:
    """Declare a function of the user's, or one of some names."""

    def check(name: str, value: Any) -> None:
        if callable(value) or value in names:
            return
        if names:
            refuse_unknown(name, value, names)
        raise UsageError(f"{name} is {value!r}, but must be a function.")

    return Parameter(default, check, default is None)


def constant(value: Any) -> Any:
    """Take a parameter of a base class away: here it has one value."""
    return _Constant(value)


def _is(value: Any, kind: Any) -> bool:
    """Tell whether a value is of some kind; True and False are not numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)


class Parametrised:
    """Has parameters that its class declares; see the module.

    A class with an ``__init__`` of its own names its parameters there, as estimators
    of scikit-learn do: keyword-only, each stored as an attribute of the same name.
    """

    parameters: ClassVar[dict[str, Parameter]] = {}
    """Own parameters first, then those of base classes."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        inherited: dict[str, Parameter] = {}
        for base in cls.__mro__[1:]:
            inherited = inherited | {
                name: parameter
                for name, parameter in vars(base).get("parameters", {}).items()
                if name not in inherited
            }
        own, gone = _declared(cls, inherited)
        if "__init__" in vars(cls):
            cls.parameters = {
                name: replace(inherited.get(name, plain), default=plain.default)
                for name, plain in _signature(cls.__init__).items()
                if name != "self"
            }
            return
        rest = {k: v for k, v in inherited.items() if k not in own and k not in gone}
        cls.parameters = own | rest
        keyword = inspect.Parameter.KEYWORD_ONLY
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, keyword, default=parameter.default)
                for name, parameter in cls.parameters.items()
            ]
        )

    def __init__(self, **given: Any) -> None:
        self._know(given)
        for name, parameter in self.parameters.items():
            setattr(self, name, given.get(name, parameter.default))
        for name, value in given.items():
            self.parameters[name].refuse(name, value)

    @classmethod
    def parameter_defaults(cls) -> dict[str, Any]:
        """Return the names and defaults of the parameters."""
        return {name: parameter.default for name, parameter in cls.parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters."""
        return {name: getattr(self, name) for name in self.parameters}

    def set_params(self, **given: Any) -> Self:
        """Change parameters; a model must then be fitted again."""
        self._know(given)
        for name, value in given.items():
            self.parameters[name].refuse(name, value)
        for name, value in given.items():
            setattr(self, name, value)
        return self

    def check_parameters(self) -> None:
        """Raise unless every parameter is in its range."""
        for name, parameter in self.parameters.items():
            parameter.refuse(name, getattr(self, name))

    @classmethod
    def _know(cls, given: Iterable[str]) -> None:
        """Raise unless all names are those of parameters."""
        for name in given:
            if name not in cls.parameters:
                refuse_threads(name)
                raise UsageError(
                    f"{cls.__name__} has no parameter {name!r}.",
                    hint=f"Its parameters are: {', '.join(cls.parameters) or 'none'}.",
                )

    def __repr__(self) -> str:
        defaults = self.parameter_defaults()
        changed = {k: v for k, v in self.get_params().items() if v != defaults[k]}
        inside = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        return f"{type(self).__name__}({inside})"


def _declared(
    cls: type, inherited: dict[str, Parameter]
) -> tuple[dict[str, Parameter], list[str]]:
    """Return the parameters that a class body declares, and those it takes away.

    The attributes of the class become their defaults.
    """
    own, gone = {}, []
    for name, value in list(vars(cls).items()):
        if isinstance(value, _Constant):
            gone.append(name)
            setattr(cls, name, value.value)
        elif isinstance(value, Parameter):
            own[name] = value
            setattr(cls, name, value.default)
        elif name in inherited:
            own[name] = replace(inherited[name], default=value)
    return own, gone


def refuse_threads(name: str) -> None:
    """Raise if a parameter is ``threads``, which models had once."""
    if name == "threads":
        raise UsageError(
            "Models have no parameter 'threads'.",
            hint="Set the threads of all kernels: with gelato.use_threads(2): ...",
        )


def parameters_of(factory: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters of a class, declared or, for one's own, of its call."""
    if isinstance(factory, type) and issubclass(factory, Parametrised):
        return factory.parameters
    return _signature(factory)


def _signature(factory: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters of a model that is not ours, and declares them by a call.

    Anything may be registered, as scikit-learn takes any estimator by its constructor.
    """
    kinds = inspect.Parameter
    return {
        name: Parameter(None if given.default is kinds.empty else given.default)
        for name, given in inspect.signature(factory).parameters.items()
        if given.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)
    }


@dataclass(frozen=True)
class Dimension:
    """A parameter's values to try in a search.

    Parameters
    ----------
    values : tuple
        What a grid and a line search try, in this order.
    low, high : float, optional
        Ends of what a free search may draw, in place of ``values``.
    log : bool
        Draw the logarithm evenly.
    step : float, optional
        Distance of drawn values.
    searches : tuple of str
        Which searches look at this parameter.
    """

    values: tuple[Any, ...]
    low: float | None = None
    high: float | None = None
    log: bool = False
    step: float | None = None
    searches: tuple[str, ...] = SEARCHES

    @property
    def is_range(self) -> bool:
        """Whether a free search draws from a range."""
        return self.low is not None and self.high is not None

    @property
    def is_whole(self) -> bool:
        """Whether the parameter is a whole number."""
        return all(type(value) is int for value in self.values)

    def start(self, default: Any) -> Any:
        """Return where a search begins: the model's default, if it may be tried."""
        known = any(type(x) is type(default) and x == default for x in self.values)
        return default if known else self.values[0]

    def tidy(self, value: Any) -> Any:
        """Return a drawn value without the noise of adding up steps."""
        stepped = self.step is not None and isinstance(value, float)
        return round(value, 10) if stepped else value

    def to_dict(self, search: str) -> dict[str, Any]:
        """Return what a search may try, as plain data."""
        if search == "free" and self.is_range:
            ends = {"low": self.low, "high": self.high}
            return {**ends, "log": self.log, "step": self.step}
        return {"values": list(self.values)}

    def only(self, *searches: str) -> Dimension:
        """Return the same values for some searches only."""
        return replace(self, searches=searches)


def unlisted(*values: Any) -> Dimension:
    """Return values that a line and a free search try, and a grid does not."""
    return Dimension(values, searches=("line", "free"))
