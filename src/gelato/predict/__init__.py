"""From scores to a ranked table of links in the user's own node ids."""
