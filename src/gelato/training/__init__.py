"""Training: negatives, tasks, the loop that every trained model shares, checkpoints."""
