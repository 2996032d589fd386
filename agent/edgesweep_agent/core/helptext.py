"""Which settings a server's build has, read from its own ``--help``.

Names come and go between builds (llama.cpp: ``--no-mmap`` became ``--load-mode none`` with
ggml-org/llama.cpp#20834; old ``--draft-max`` is still listed, as removed), so a setting is a
list of ways to say it, newest first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FLAG = r"--?[A-Za-z][\w.-]*"
_FLAGS = re.compile(rf"\s{{0,8}}({_FLAG}(?:[ \t]*[,/|][ \t]*{_FLAG})*)")
_REMOVED = "argument has been removed"

Ways = tuple[tuple[str, ...], ...]
"""Ways to say one setting, each a flag with its values, newest first."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Settings as a build understands them, and those that it does not."""

    arguments: tuple[str, ...]
    dropped: tuple[str, ...]


def flag_groups(help_text: str) -> tuple[frozenset[str], ...]:
    """The flags of a help text; names of one flag together, removed ones left out."""
    groups: list[frozenset[str]] = []
    for line in help_text.splitlines():
        match = _FLAGS.match(line)
        if match is not None:
            groups.append(frozenset(re.findall(_FLAG, match[1])))
        if _REMOVED in line and groups:
            groups.pop()
    return tuple(groups)


def fit(wanted: Sequence[Ways], help_text: str, *, taken: Iterable[str] = ()) -> Fitted:
    """Say each setting as the build does; what it does not know is dropped and named.

    Args:
        wanted: The settings.
        help_text: What the build says of itself. Where it says nothing (no flag found), every
            setting is said in its newest way, and the server has the last word.
        taken: Flags that somebody else has set: settings of the same name give way to them.
    """
    groups = flag_groups(help_text)
    known = frozenset().union(*groups)
    given = frozenset(taken).union(*(group for group in groups if group & frozenset(taken)))
    arguments: list[str] = []
    dropped: list[str] = []
    for ways in wanted:
        if any(way[0] in given for way in ways):
            continue
        fitting = next((way for way in ways if not known or way[0] in known), None)
        if fitting is None:
            dropped.append(" ".join(ways[0]))
        else:
            arguments += fitting
    return Fitted(tuple(arguments), tuple(dropped))


def knows(flag: str, help_text: str) -> bool:
    """Whether a build has a flag; one that says nothing of itself is taken to have it."""
    groups = flag_groups(help_text)
    return not groups or any(flag in group for group in groups)
