"""How envelopes come in: transports that only move bytes, and the one place that accepts."""
