"""Graph neural networks that score pairs from node states, under one protocol."""
