"""Parameters that a class declares: ranges, defaults, subclasses."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from gelato.errors import UnknownNameError, UsageError
from gelato.parameters import (
    Parametrised,
    choice,
    constant,
    flag,
    function,
    number,
    parameters_of,
    whole,
)


class Base(Parametrised):
    size: int = whole(3)
    share: float = number(0.5, least=0, most=1)
    kind: str = choice("plain", ("plain", "odd"))
    loud: bool = flag(False)
    limit: int | None = whole(None)


class Changed(Base):
    rate: float = number(0.1, above=0)
    size: int = 4
    kind = constant("odd")


def test_defaults_and_order():
    assert list(Base.parameters) == ["size", "share", "kind", "loud", "limit"]
    assert list(Changed.parameters) == ["rate", "size", "share", "loud", "limit"]
    assert (Base().size, Changed().size, Changed().kind) == (3, 4, "odd")
    assert repr(Changed(rate=1, limit=5)) == "Changed(rate=1, limit=5)"
    assert list(inspect.signature(Base).parameters) == list(Base.parameters)
    assert Base(size=7).get_params() == Base().get_params() | {"size": 7}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("size", 0, "whole number of at least 1"),
        ("size", True, "whole number"),
        ("size", 2.0, "whole number"),
        ("size", None, "whole number"),
        ("share", 1.1, "a number from 0 to 1"),
        ("share", float("nan"), "a number from 0 to 1"),
        ("loud", 1, "true or false"),
        ("limit", 0, "whole number"),
    ],
)
def test_values_out_of_range_are_refused_when_made_and_when_set(name, value, told):
    with pytest.raises(UsageError, match=f"{name} is .*{told}"):
        Base(**{name: value})
    model = Base()
    with pytest.raises(UsageError, match=told):
        model.set_params(**{name: value})
    setattr(model, name, value)
    with pytest.raises(UsageError, match=told):
        model.check_parameters()


def test_a_change_that_is_refused_changes_nothing():
    model = Base()
    with pytest.raises(UsageError):
        model.set_params(size=9, share=2)
    assert model.size == 3


def test_ranges_are_inherited_and_names_are_suggested():
    with pytest.raises(UsageError, match="size is 0"):
        Changed(size=0)
    with pytest.raises(UnknownNameError, match="Did you mean 'plain'"):
        Base(kind="plane")
    with pytest.raises(
        UsageError, match=r"Changed has no parameter 'kind'.*rate, size"
    ):
        Changed(kind="plain")
    with pytest.raises(UsageError, match="use_threads"):
        Base(threads=2)
    assert Base(size=np.int64(2), share=np.float32(0.5), limit=None).limit is None


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ({"least": 0}, "0 or larger"),
        ({"above": 0}, "above 0"),
        ({"least": 0, "below": 1}, "at least 0 and below 1"),
        ({"above": 0, "most": 1}, "above 0 and at most 1"),
        ({}, "a number."),
    ],
)
def test_ends_are_said(ends, told):
    with pytest.raises(UsageError, match=told):
        number(0.5, **ends).refuse("x", "text")


def test_functions():
    given = function("cosine", "cosine")
    given.refuse("similarity", len)
    with pytest.raises(UnknownNameError, match="not known"):
        given.refuse("similarity", "jaccard")
    with pytest.raises(UsageError, match="must be a function"):
        function(None).refuse("pair_model", 3)


def test_a_class_with_an_init_of_its_own():
    class Own(Base):
        def __init__(self, *, size=2, other="x"):
            self.size, self.other = size, other

    assert Own.parameter_defaults() == {"size": 2, "other": "x"}
    assert repr(Own(other="y")) == "Own(other='y')"
    with pytest.raises(UsageError, match="size is 0"):
        Own().set_params(size=0)
    assert list(parameters_of(lambda *, a=1, **more: None)) == ["a"]
