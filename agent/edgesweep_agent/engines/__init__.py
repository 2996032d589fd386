"""What serves the model: one file per engine, told apart by what it answers."""
