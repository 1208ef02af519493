"""SEAL: a graph classifier on the labelled subgraph of each pair."""
