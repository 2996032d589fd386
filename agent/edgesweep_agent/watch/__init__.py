"""Watches a device and an engine while a level runs, off the measuring path."""
