"""Pure: planning, parsing, arithmetic. No I/O, no clock, no concurrency."""
