"""Neo-GNN: learned overlaps of neighbourhoods beside graph convolutions."""
