"""Spool files that are torn, cut or have bits flipped, as they lie there or as a kill left them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from oracle import BrokenError, Promises, examined
from writer import KINDS, entry, keys_text, opened, told

from edgesweep_agent.spool import Refused

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

CASES_PER_BASE = 10
SECTOR = 512


def torn(data: bytearray, dice: random.Random) -> None:
    """Some sectors have other bytes than they should."""
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(0, len(data), SECTOR)
        end = min(len(data), at + SECTOR * dice.choice((1, 1, 2, 8)))
        other = dice.choice(("zeros", "noise", "elsewhere"))
        if other == "zeros":
            data[at:end] = bytes(end - at)
        elif other == "noise":
            data[at:end] = dice.randbytes(end - at)
        else:
            start = dice.randrange(0, max(1, len(data) - (end - at)), SECTOR)
            data[at:end] = data[start : start + end - at].ljust(end - at, b"\0")


def truncated(data: bytearray, dice: random.Random) -> None:
    """The end is missing."""
    del data[dice.randrange(0, len(data)) :]


def flipped(data: bytearray, dice: random.Random) -> None:
    """A few bits are the other way round."""
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def base(folder: Path, dice: random.Random) -> Promises:
    """A spool in use, with its log, as a kill leaves it, or closed."""
    shutil.rmtree(folder, ignore_errors=True)
    used, promises = folder / "used", Promises()
    used.mkdir(parents=True)
    spool = opened(used)
    for _ in range(dice.randrange(3, 40)):
        stored = spool.append([entry(dice.choice(KINDS)) for _ in range(dice.choice((1, 3, 30)))])
        promises.heard(f"A {keys_text(one for one in stored if not isinstance(one, Refused))}\n")
        if dice.random() < 0.3:
            parcels = spool.head(dice.randrange(1, 40))
            promises.heard("".join(told(one) for one in parcels))
            promises.heard(f"D {keys_text(one.key for one in parcels)}\n")
            spool.settle([one.key for one in parcels], [], "")
        if dice.random() < 0.1:
            spool.settle([], [one.key for one in spool.head(1)], "torture")
    if dice.random() < 0.5:
        spool.close()
        shutil.copytree(used, folder / "base")
    else:
        shutil.copytree(used, folder / "base")
        spool.close()
    return promises


def run(
    root: Path, count: int, dice: random.Random, how: Callable[[bytearray, random.Random], None]
) -> str:
    """Damage so many copies; what came of it.

    Raises:
        BrokenError: a promise was not kept.
    """
    for n in range(count):
        if n % CASES_PER_BASE == 0:
            promises = base(root / "bases", dice)
        folder = root / how.__name__
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(root / "bases/base", folder)
        sides = [folder / name for name in ("spool.db", "spool.db-wal")]
        victim = dice.choice([side for side in sides if side.exists() and side.stat().st_size])
        data = bytearray(victim.read_bytes())
        how(data, dice)
        victim.write_bytes(data)
        hurt = root / "hurt"
        shutil.rmtree(hurt, ignore_errors=True)
        shutil.copytree(folder, hurt)
        _examined(folder, promises.copy(), f"{how.__name__} {n}: {victim.name}")
    return f"{count} {how.__name__} files, each opened, nothing lost that was not told"


def _examined(folder: Path, promises: Promises, name: str) -> None:
    try:
        examined(folder, promises)
        spool = opened(folder)
        try:
            keys = spool.append([entry(KINDS[0])] * 3)
            promises.heard(f"A {keys_text(one for one in keys if not isinstance(one, Refused))}\n")
        finally:
            spool.close()
        examined(folder, promises)
    except BrokenError as error:
        raise BrokenError(f"{name}: {error} (as it was: {folder.parent}/hurt)") from error
