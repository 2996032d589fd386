"""What the collector serves over HTTP."""
