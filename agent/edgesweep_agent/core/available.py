"""What a box has left: the smallest of every limit that an engine on it meets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_LIMIT = 2**60
"""cgroup v1 says "none" by 2^63 less a page; nothing this large is a limit."""

_ADDRESS_SPACE = re.compile(r"^Max address space\s+(\S+)", re.MULTILINE)
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Available:
    """Bytes an engine could still take, and which limit says so.

    ``terms`` are all limits by name, each with the bytes it leaves. ``total_bytes`` is the
    machine's memory. What could not be read is ``None``, never 0.
    """

    total_bytes: int | None
    available_bytes: int | None
    limited_by: str
    terms: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Mount:
    """Where a cgroup hierarchy that may carry the memory controller is mounted."""

    version: int
    root: str
    point: str


@dataclass(frozen=True, slots=True)
class CgroupMemory:
    """One cgroup's figures; ``limit_bytes`` is ``None`` where it sets none."""

    name: str
    limit_bytes: int | None
    usage_bytes: int
    inactive_file_bytes: int = 0
    active_file_bytes: int = 0

    def available_bytes(self, mapped_weights_bytes: int = 0, reused_bytes: int = 0) -> int | None:
        """The limit less what is used; unused file cache counts as free, mapped weights do not.

        Weights that the kernel holds on its inactive list will be needed for the next token.
        """
        if self.limit_bytes is None:
            return None
        return max(0, self.limit_bytes - self.used_bytes(mapped_weights_bytes, reused_bytes))

    def used_bytes(self, mapped_weights_bytes: int = 0, reused_bytes: int = 0) -> int:
        """Usage less the file cache that may go, and less what a start would find in it.

        An engine that served the same model before has left its weights on the active list: who
        counts them among what the next one needs must not count them as used as well.
        """
        file_bytes = self.inactive_file_bytes + self.active_file_bytes
        active = max(0, self.active_file_bytes - reused_bytes)
        kept = max(active, min(file_bytes, mapped_weights_bytes))
        return max(0, self.usage_bytes - file_bytes + kept)


@dataclass(frozen=True, slots=True)
class CgroupFiles:
    """What a hierarchy's version calls its files, and the prefix of subtree sums in the stat."""

    limits: tuple[str, ...]
    usage: str
    events: str
    prefix: str
    stat: str = "memory.stat"


CGROUP_FILES = {
    2: CgroupFiles(("memory.max", "memory.high"), "memory.current", "memory.events", ""),
    1: CgroupFiles(
        ("memory.limit_in_bytes",), "memory.usage_in_bytes", "memory.oom_control", "total_"
    ),
}
"""By version. Over ``memory.high`` nothing is killed, and everything is slowed down."""


def cgroup_memory(
    name: str, version: int, limits: Iterable[str], usage: str, stat: dict[str, int]
) -> CgroupMemory | None:
    """A cgroup's figures from its files' texts; ``None`` if it does not count memory."""
    used = parse_limit(usage)
    if used is None:
        return None
    known = [limit for text in limits if (limit := parse_limit(text)) is not None]
    prefix = CGROUP_FILES[version].prefix
    return CgroupMemory(
        name,
        min(known, default=None),
        used,
        stat.get(f"{prefix}inactive_file", 0),
        stat.get(f"{prefix}active_file", 0),
    )


def smallest(
    total_bytes: int | None, terms: Iterable[tuple[str, int | None]], unknown: str
) -> Available:
    """The least of all limits; those that are ``None`` do not exist here."""
    known = tuple((name, max(0, value)) for name, value in terms if value is not None)
    if not known:
        return Available(total_bytes, None, unknown, ())
    name, value = min(known, key=lambda term: term[1])
    return Available(total_bytes, value, name, known)


def parse_meminfo(text: str) -> dict[str, int]:
    """Bytes by name, of ``/proc/meminfo``."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        value, _, unit = rest.strip().partition(" ")
        if unit == "kB" and value.isdigit():
            found[name] = int(value) * 1024
    return found


def mem_available(meminfo: dict[str, int], mapped_weights_bytes: int = 0) -> int | None:
    """MemAvailable less what mapped weights still need; ``None`` if the kernel does not say.

    The kernel counts the file cache that holds the weights as available, and an engine that
    mapped them cannot do without. Before 3.14 there was no MemAvailable: free memory and cache.
    """
    value = meminfo.get("MemAvailable")
    if value is None:
        parts = [meminfo.get(name) for name in ("MemFree", "Buffers", "Cached")]
        known = [part for part in parts if part is not None]
        if len(known) != len(parts):
            return None
        value = sum(known) - meminfo.get("Shmem", 0)
    return max(0, value - mapped_weights_bytes)


def parse_stat(text: str) -> dict[str, int]:
    """Counters by name, of ``memory.stat``, ``memory.events`` or ``/proc/vmstat``."""
    pairs = (line.partition(" ") for line in text.splitlines())
    return {name: int(value) for name, _, value in pairs if value.isdigit()}


def parse_limit(text: str) -> int | None:
    """A cgroup's limit file; ``None`` for ``max``, v1's sentinel, and what is no number."""
    word = text.strip()
    if not word.isdigit() or int(word) >= NO_LIMIT:
        return None
    return int(word)


def parse_cgroup(text: str) -> dict[int, str]:
    """The cgroup path by hierarchy version, of ``/proc/<pid>/cgroup`` (cgroups(7))."""
    found: dict[int, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers and path:
            found[2] = path
        elif "memory" in controllers.split(","):
            found[1] = path
    return found


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Mounts of cgroup2 and of v1's memory controller, of ``/proc/<pid>/mountinfo``."""
    found = []
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        before, after = left.split(), right.split()
        if not separator or len(before) < 5 or len(after) < 3:
            continue
        if after[0] == "cgroup2":
            found.append(Mount(2, _unescaped(before[3]), _unescaped(before[4])))
        elif after[0] == "cgroup" and "memory" in after[2].split(","):
            found.append(Mount(1, _unescaped(before[3]), _unescaped(before[4])))
    return tuple(found)


def folders(path: str, mount: Mount) -> tuple[str, ...]:
    """The folders of a cgroup and of all above it, the cgroup's own first.

    In a container the mount shows a part of the tree alone: ``mount.root`` is cut off the path,
    and a path outside of it can only mean the mounted folder itself.
    """
    root = mount.root.rstrip("/")
    inside = path == mount.root or path.startswith(f"{root}/")
    rest = path[len(root) :].strip("/") if inside else ""
    parts = [] if ".." in rest.split("/") else [part for part in rest.split("/") if part]
    return tuple(
        "/".join([mount.point.rstrip("/"), *parts[:depth]]) for depth in range(len(parts), -1, -1)
    )


def address_space_bytes(limits: str, status: str = "") -> int | None:
    """What RLIMIT_AS leaves, of ``/proc/<pid>/limits`` and the process's own ``status``.

    An engine yet to be started begins with the whole limit: give no status.
    """
    match = _ADDRESS_SPACE.search(limits)
    limit = parse_limit(match[1]) if match else None
    if limit is None:
        return None
    return limit - parse_meminfo(status).get("VmSize", 0)


def _unescaped(field: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), field)


_BUCKET = re.compile(r"(?:^|[./-])(\d+)g(?:ib)?(?=$|[./-])")
_VISIBLE = 0.91
"""The least share of a nominal size that a kernel has shown as MemTotal: 7,486 MiB of 8 GiB on
an Orin Nano with JetPack 7.2."""
_SYSTEM_BYTES = 700 * 2**20
"""What a headless Linux with a container runtime is taken to use."""


def of_class(hardware_class: str) -> Available:
    """What a box of a class should have left, by the RAM bucket in its name, such as ``8g``.

    Raises:
        ValueError: there is no bucket in it.
    """
    match = _BUCKET.search(hardware_class.strip().lower())
    if match is None or not 0 < int(match[1]) <= 2**20:
        raise ValueError(
            f"{hardware_class!r} has no RAM bucket: write 8g, or a class with .8g in it"
        )
    total = int(int(match[1]) * 2**30 * _VISIBLE)
    name = f"{match[1]}g class: MemTotal and {_SYSTEM_BYTES // 2**20} MiB for the system assumed"
    return smallest(total, [(name, total - _SYSTEM_BYTES)], name)
