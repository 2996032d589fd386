"""One run of a plan: contenders, sessions and levels in their order, each result recorded."""
