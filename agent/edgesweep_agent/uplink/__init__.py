"""How envelopes leave the device: transports that only move bytes, and what drives them."""
