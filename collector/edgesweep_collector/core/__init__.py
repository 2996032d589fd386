"""The comparison of two engines, as pure functions: no I/O, no clock, no event loop."""
