"""The graph neural networks of the comparison, each whole in a file or folder."""
