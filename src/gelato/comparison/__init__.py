"""Models side by side: the same splits, a tidy table of runs, and what it tells."""

from gelato.comparison.runs import compare
from gelato.comparison.summary import summarise_comparison

__all__ = ["compare", "summarise_comparison"]
