"""Link prediction without graph neural networks."""

__version__ = "0.1.0"
