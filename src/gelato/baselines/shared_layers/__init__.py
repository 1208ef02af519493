"""What two networks or more share: the estimator, training, layers and decoders."""
