"""Hyperbolic formulas against others for the same things, written out directly."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gelato.baselines import hyperbolic as h

CURVATURES = [0.3, 1.0, 2.5]


def vectors(n=12, d=5, scale=0.6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(n, d, dtype=torch.float64, generator=generator)


def number(c):
    return torch.tensor(c, dtype=torch.float64)


@pytest.mark.parametrize("c", CURVATURES)
class TestBall:
    def test_exp_and_log_are_inverse_along_geodesics(self, c):
        u = vectors()
        x = h.ball_exp(u, number(c))
        torch.testing.assert_close(h.ball_log(x, number(c)), u)
        # The point reached is at hyperbolic distance 2 |u| from the origin.
        radius = x.norm(dim=1)
        reached = torch.log((1 + math.sqrt(c) * radius) / (1 - math.sqrt(c) * radius))
        torch.testing.assert_close(reached / math.sqrt(c), 2 * u.norm(dim=1))

    def test_distance_equals_the_mobius_and_the_arcosh_forms(self, c):
        x = h.ball_exp(vectors(seed=1), number(c))
        y = h.ball_exp(vectors(seed=2), number(c))
        sums = h.mobius_add(-x, y, number(c)).norm(dim=1)
        by_mobius = (2 / math.sqrt(c) * torch.atanh(math.sqrt(c) * sums)) ** 2
        xx, yy = (x * x).sum(1), (y * y).sum(1)
        gap = h.ball_gap(((x - y) ** 2).sum(1), xx, yy, number(c))
        by_arcosh = (torch.acosh(1 + 2 * c * gap) / math.sqrt(c)) ** 2
        ours = h.ball_squared_distance(gap, number(c))
        torch.testing.assert_close(ours, by_mobius)
        torch.testing.assert_close(ours, by_arcosh)

    def test_mobius_sum_is_the_translation_of_the_disc(self, c):
        """In two dimensions: (x + y) / (1 + conj(x) y), a fractional linear map."""
        x = h.ball_exp(vectors(d=2, seed=1), number(c)) * math.sqrt(c)
        y = h.ball_exp(vectors(d=2, seed=2), number(c)) * math.sqrt(c)
        one, two = torch.view_as_complex(x), torch.view_as_complex(y)
        expected = torch.view_as_real((one + two) / (1 + one.conj() * two))
        ours = h.mobius_add(x / math.sqrt(c), y / math.sqrt(c), number(c))
        torch.testing.assert_close(ours * math.sqrt(c), expected)

    def test_mobius_image_is_linear_in_the_tangent_space(self, c):
        x = h.ball_exp(vectors(), number(c))
        matrix = vectors(4, 5, seed=3)
        expected = h.ball_exp(h.ball_log(x, number(c)) @ matrix.T, number(c))
        ours = h.mobius_image(x @ matrix.T, h.norms(x), number(c))
        torch.testing.assert_close(ours, expected)

    def test_points_stay_inside_and_gradients_finite(self, c):
        far = torch.cat([vectors(scale=1e4), torch.zeros(1, 5, dtype=torch.float64)])
        u = far.float().requires_grad_()
        curvature = torch.tensor(c, requires_grad=True)
        x = h.ball_exp(u, curvature)
        assert (math.sqrt(c) * x.norm(dim=1) <= 1 - 3.9e-3).all()
        back = h.ball_log(
            h.mobius_image(x @ torch.eye(5), h.norms(x), curvature), c_(c)
        )
        back.sum().backward()
        assert torch.isfinite(u.grad).all()
        assert torch.isfinite(curvature.grad)


def c_(c):
    return torch.tensor(c)


def test_equal_points_have_distance_zero_and_no_infinite_gradient():
    x = torch.full((2, 3), 0.2, dtype=torch.float64, requires_grad=True)
    squares = (x * x).sum(1)
    gap = h.ball_gap(((x[0] - x[1]) ** 2).sum(), squares[0], squares[1], number(1.0))
    distance = h.ball_squared_distance(gap, number(1.0))
    distance.backward()
    assert float(distance.detach()) < 1e-14
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("c", CURVATURES)
class TestHyperboloid:
    def test_points_lie_on_it_and_come_back(self, c):
        u = vectors()
        x = h.hyperboloid_exp(u, number(c))
        points = h.hyperboloid_point(x, number(c))
        squares = -(points[:, 0] ** 2) + (points[:, 1:] ** 2).sum(1)
        torch.testing.assert_close(squares, torch.full_like(squares, -c))
        root = math.sqrt(c)
        lengths = u.norm(dim=1)
        torch.testing.assert_close(points[:, 0], root * torch.cosh(lengths / root))
        torch.testing.assert_close(h.hyperboloid_log(x, number(c)), u)

    def test_centroids_lie_on_it_and_do_not_depend_on_the_scale(self, c):
        points = h.hyperboloid_point(h.hyperboloid_exp(vectors(), number(c)), number(c))
        mixture = points.cumsum(0)
        centre = h.lorentz_normalised(mixture, number(c))
        squares = -(centre[:, 0] ** 2) + (centre[:, 1:] ** 2).sum(1)
        torch.testing.assert_close(squares, torch.full_like(squares, -c))
        torch.testing.assert_close(centre, h.lorentz_normalised(7 * mixture, number(c)))
        torch.testing.assert_close(centre[0], points[0])

    def test_extreme_vectors_are_capped(self, c):
        u = torch.tensor([[1e6, 0.0], [0.0, 0.0]], requires_grad=True)
        x = h.hyperboloid_exp(u, c_(c))
        assert np.isclose(float(x[0].detach().norm()), 1000.0)
        h.hyperboloid_log(x, c_(c)).sum().backward()
        assert torch.isfinite(u.grad).all()


def test_curvatures_stay_positive():
    assert float(h.positive_curvature(torch.tensor(-3.0))) == pytest.approx(1e-4)


def test_the_unit_hyperboloid_agrees_with_the_unit_ball():
    """x -> x / (1 + x0) maps the hyperboloid to the ball, keeping distances."""
    c = number(1.0)
    one, two = (
        h.hyperboloid_point(h.hyperboloid_exp(vectors(seed=s), c), c) for s in (1, 2)
    )
    product = (h.reflected(one) * two).sum(1)
    x, y = (p[:, 1:] / (1 + p[:, :1]) for p in (one, two))
    squares = ((x - y) ** 2).sum(1)
    gap = h.ball_gap(squares, (x * x).sum(1), (y * y).sum(1), c)
    on_hyperboloid = torch.acosh(-product) ** 2
    torch.testing.assert_close(h.ball_squared_distance(gap, c), on_hyperboloid)
