"""WalkPool: walks on the subgraph of each pair, with and without the pair's edge."""
