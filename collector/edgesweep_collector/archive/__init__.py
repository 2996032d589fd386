"""The truth: raw envelopes, append-only, and the tables decoded from them."""
