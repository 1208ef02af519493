"""NBFNet: learned encodings of all paths between two nodes."""
