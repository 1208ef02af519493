"""Rank pairs by many cheap features, combined by trees that learn from hidden edges.

``features`` computes one table of named columns for pairs of a graph; ``lists``
finds the pairs worth scoring; ``folds`` hides training edges to learn from;
``ranker`` fits the trees; ``gate`` decides whether they are trusted; ``calibration``
tells what their scores are worth; ``reasons`` says why. Nothing
here knows models or test edges.
"""
