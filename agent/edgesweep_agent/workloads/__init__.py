"""Named request shapes, and the prompts that fill them."""
