"""Hyperbolic space in two pictures: the Poincare ball and the hyperboloid.

The ball of curvature -c holds the x with ``c |x|^2 < 1``. The hyperboloid with squared
radius c holds the (x0, x) with ``-x0^2 + |x|^2 = -c`` and ``x0 > 0``; only x is kept,
since x0 follows from it. Everything here is differentiable, also in c.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

SMALLEST_CURVATURE = 1e-4
_TINY = 1e-15
_MOST_TANH = 15.0
_MOST_ANGLE = 50.0
_MOST_NORM = 1000.0
# How far from the rim of the ball a point must stay, by precision.
_MARGINS = {torch.float32: 4e-3, torch.float64: 1e-5}


def positive_curvature(c: Tensor) -> Tensor:
    """Return a curvature that training may have pushed to 0 or below, made positive."""
    return c.clamp_min(SMALLEST_CURVATURE)


def curvatures(count: int, start: float, *, trainable: bool) -> nn.ParameterList:
    """Return the curvatures of some layers, learned or fixed."""
    return nn.ParameterList(
        nn.Parameter(torch.tensor(start), requires_grad=trainable) for _ in range(count)
    )


def norms(x: Tensor) -> Tensor:
    """Return the norm of every row, ``(n, 1)``, at least 1e-15.

    A row of zeros has the gradient zero, not a division by zero.
    """
    squares = (x * x).sum(dim=-1, keepdim=True)
    return squares.clamp_min(_TINY**2).sqrt().clamp_min(_TINY)


def _tanh(x: Tensor) -> Tensor:
    return x.clamp(-_MOST_TANH, _MOST_TANH).tanh()


def _artanh(x: Tensor) -> Tensor:
    # In double precision, as single precision rounds 1 - 1e-15 to 1.
    return x.double().clamp(-1 + _TINY, 1 - _TINY).atanh().to(x.dtype)


def ball_project(x: Tensor, c: Tensor) -> Tensor:
    """Return points moved inside the ball, away from its rim."""
    return x * ball_shrink(norms(x), c)


def ball_shrink(norm: Tensor, c: Tensor) -> Tensor:
    """Return the factor, at most 1, that keeps a point of some norm in the ball."""
    most = (1 - _MARGINS[norm.dtype]) / c.sqrt()
    return torch.where(norm > most, most / norm, torch.ones_like(norm))


def ball_exp(u: Tensor, c: Tensor) -> Tensor:
    """Return the points that tangent vectors at the origin lead to, projected."""
    norm = norms(u)
    return ball_project(u * ball_exp_scale(norm, c), c)


def ball_exp_scale(norm: Tensor, c: Tensor) -> Tensor:
    """Return the factor by which the exponential map shrinks a vector of some norm."""
    return _tanh(c.sqrt() * norm) / (c.sqrt() * norm)


def ball_log(x: Tensor, c: Tensor) -> Tensor:
    """Return the tangent vectors at the origin that lead to points."""
    norm = c.sqrt() * norms(x)
    return _artanh(norm) / norm * x


def mobius_add(x: Tensor, y: Tensor, c: Tensor) -> Tensor:
    """Return the Moebius sum of points."""
    xy = (x * y).sum(dim=-1, keepdim=True)
    xx = (x * x).sum(dim=-1, keepdim=True)
    yy = (y * y).sum(dim=-1, keepdim=True)
    top = (1 + 2 * c * xy + c * yy) * x + (1 - c * xx) * y
    return top / (1 + 2 * c * xy + c * c * xx * yy).clamp_min(_TINY)


def mobius_image(product: Tensor, norm: Tensor, c: Tensor) -> Tensor:
    """Return the Moebius image of points under a matrix M, projected.

    Parameters
    ----------
    product : (n, d) Tensor
        M x, which may come from a sparse product.
    norm : (n, 1) Tensor
        |x|.
    c : Tensor
        Curvature.
    """
    length = norms(product)
    root = c.sqrt()
    scale = _tanh(length / norm * _artanh(root * norm)) / (root * length)
    # Where M x = 0 the image is 0, although the scale is 0 / 0 in the limit.
    return ball_project(product * scale, c)


def ball_gap(squares: Tensor, u: Tensor, v: Tensor, c: Tensor) -> Tensor:
    """Return ``|u - v|^2 / ((1 - c |u|^2)(1 - c |v|^2))``, increasing in distance.

    Parameters
    ----------
    squares : Tensor
        ``|u - v|^2``.
    u, v : Tensor
        ``|u|^2`` and ``|v|^2``.
    c : Tensor
        Curvature.
    """
    return squares / ((1 - c * u) * (1 - c * v))


def ball_squared_distance(gap: Tensor, c: Tensor) -> Tensor:
    """Return the squared hyperbolic distance of pairs by their gap.

    ``d = (2 / sqrt(c)) arsinh(sqrt(c gap))``, which equals the form with artanh of a
    Moebius difference and that with arcosh, but loses no digits at short distances.
    """
    angle = (c * gap.clamp_min(_TINY)).sqrt().asinh()
    return 4 / c * angle * angle


def hyperboloid_exp(u: Tensor, c: Tensor) -> Tensor:
    """Return the spatial part of the points that tangent vectors lead to."""
    norm, root = norms(u), c.sqrt()
    angle = (norm / root).clamp_max(_MOST_ANGLE)
    # Capped before it meets the vector, whose squares would overflow otherwise.
    length = (root * angle.sinh()).clamp_max(_MOST_NORM)
    return length / norm * u


def hyperboloid_log(x: Tensor, c: Tensor) -> Tensor:
    """Return the tangent vectors at the origin that lead to points (spatial part)."""
    norm, root = norms(x), c.sqrt()
    # arcosh(x0 / r) = arsinh(|x| / r) on the hyperboloid, without its cancellation.
    return root * (norm / root).asinh() / norm * x


def hyperboloid_point(x: Tensor, c: Tensor) -> Tensor:
    """Return whole points ``(n, 1 + d)`` from their spatial part."""
    time = (c + (x * x).sum(dim=-1, keepdim=True)).sqrt()
    return torch.cat([time, x], dim=-1)


def reflected(points: Tensor) -> Tensor:
    """Return points with x0 negated: one factor of ``<x, y>_L`` as a plain product."""
    return torch.cat([-points[:, :1], points[:, 1:]], dim=-1)


def lorentz_normalised(mixture: Tensor, c: Tensor) -> Tensor:
    """Return weighted sums of points scaled back to the hyperboloid (centroids)."""
    square = (mixture * reflected(mixture)).sum(dim=-1, keepdim=True)
    return mixture * (c / square.abs().clamp_min(1e-6)).sqrt()
