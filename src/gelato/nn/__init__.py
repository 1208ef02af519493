"""Differentiable pieces (torch): pair MLP, graph enhancement, walk scores, losses."""
