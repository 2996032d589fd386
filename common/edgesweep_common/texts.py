"""Text of others on its way to a person."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text without what a terminal would take for a command, and a page cannot carry."""
    return "".join(char if char.isprintable() else "?" for char in text)
