"""Values computed ahead: given away once, never when out of date."""

import torch
from torch import nn

from gelato.baselines.bscnets import Ahead


def test_a_step_takes_the_value_of_the_validation_before_it_once():
    ahead, weight = Ahead(), nn.Parameter(torch.tensor([1.0, 2.0]))
    calls = []

    def compute():
        calls.append(None)
        return weight.square()

    def value(training):
        return ahead.value(compute, [weight], training=training)

    with torch.no_grad():
        seen = value(training=False)
    assert not seen.requires_grad
    step = value(training=True)
    assert len(calls) == 1
    assert torch.equal(step, seen)
    step.sum().backward()
    assert weight.grad.tolist() == [2.0, 4.0]
    value(training=True).sum().backward()  # a second step needs its own
    assert len(calls) == 2


def test_values_of_changed_or_other_parameters_are_not_taken():
    ahead, weight = Ahead(), nn.Parameter(torch.ones(2))
    ahead.value(lambda: 2 * weight, [weight], training=False)
    with torch.no_grad():
        weight.add_(1.0)
    found = ahead.value(lambda: 2 * weight, [weight], training=True)
    assert found.tolist() == [4.0, 4.0]
    ahead.value(lambda: 2 * weight, [weight], training=False)
    other = nn.Parameter(torch.zeros(2))
    found = ahead.value(lambda: 2 * other, [other], training=True)
    assert found.tolist() == [0.0, 0.0]
