"""TLC-GNN: graph convolutions beside persistence images of the graph around a pair."""
