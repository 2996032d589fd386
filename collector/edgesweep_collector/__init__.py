"""The collector: archives what the fleet measured, projects it, and compares it."""
