"""What the box tells of itself: one file per source, each with a root, none able to fail a run."""
