"""What this box has left, and what a model file needs: reads what the core computes with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from edgesweep_agent.core import available as core
from edgesweep_agent.core import gguf, hf_config, model_shape, placement
from edgesweep_agent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgesweep_agent.core.available import Available, CgroupMemory
    from edgesweep_agent.core.model_shape import ModelShape
    from edgesweep_agent.core.placement import LayerWeights

_MOST_PARTS = 4096


def available(
    *,
    root: Path = Path("/"),
    pid: int | None = None,
    gpu_free_bytes: int | None = None,
    mapped_weights_bytes: int = 0,
    reused_bytes: int = 0,
) -> Available:
    """The bytes that an engine could still take here, and which limit says so.

    The least of: every cgroup limit on the path to the root, RLIMIT_AS, MemAvailable less what
    mapped weights still need, and the GPU's free memory. What is absent limits nothing.

    Args:
        root: Where ``proc`` and ``sys`` are.
        pid: A running engine; without it, one that this process would start.
        gpu_free_bytes: Free memory of a GPU with memory of its own.
        mapped_weights_bytes: Weights of running engines that the kernel counts as cache.
        reused_bytes: What an engine yet to be started maps: it may be in the cache already, and
            is counted among what that engine needs.
    """
    proc = root / "proc" / ("self" if pid is None else str(pid))
    meminfo = core.parse_meminfo(read_text(root / "proc/meminfo"))
    status = "" if pid is None else read_text(proc / "status")
    terms: list[tuple[str, int | None]] = [
        ("MemAvailable", core.mem_available(meminfo, mapped_weights_bytes)),
        ("RLIMIT_AS", core.address_space_bytes(read_text(proc / "limits"), status)),
        ("GPU free", gpu_free_bytes),
    ]
    terms += [
        (cgroup.name, cgroup.available_bytes(mapped_weights_bytes, reused_bytes))
        for cgroup in cgroups(root=root, pid=pid)
    ]
    return core.smallest(meminfo.get("MemTotal"), terms, "/proc/meminfo cannot be read")


def cgroups(*, root: Path = Path("/"), pid: int | None = None) -> tuple[CgroupMemory, ...]:
    """The memory cgroups of a process, from its own up to the root; none where there are none."""
    found = (_cgroup(root, folder, version) for version, folder in cgroup_folders(root, pid))
    return tuple(cgroup for cgroup in found if cgroup is not None)


def cgroup_folders(root: Path, pid: int | None) -> Iterator[tuple[int, str]]:
    """The folders of a process's cgroups with their version, whether or not they count memory."""
    proc = root / "proc" / ("self" if pid is None else str(pid))
    paths = core.parse_cgroup(read_text(proc / "cgroup"))
    mounts = core.parse_mounts(read_text(proc / "mountinfo")) or (
        core.Mount(2, "/", "/sys/fs/cgroup"),
        core.Mount(1, "/", "/sys/fs/cgroup/memory"),
    )
    for mount in mounts:
        if mount.version in paths:
            for folder in core.folders(paths[mount.version], mount):
                yield mount.version, folder


def read_text(path: Path) -> str:
    """A kernel file's text; empty where it is absent, refused or gone."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def model(path: Path, *, honours_windows: bool = True) -> ModelShape:
    """The shape of a model: of a GGUF file, with all its parts, or of a Hugging Face folder.

    Args:
        path: The file, or the folder that has ``config.json`` and ``*.safetensors``.
        honours_windows: Whether the engine keeps only the window where a folder's config has one.

    Raises:
        UsageError: there is no such model, or its header cannot be used; says which file and why.
    """
    try:
        return _hf_shape(path, honours_windows) if path.is_dir() else _gguf_shape(path)
    except OSError as error:
        raise UsageError(f"{error.filename or path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}") from error


def read_gguf(path: Path) -> tuple[gguf.GgufHeader, ...]:
    """The headers of a GGUF file and of the parts that belong to it.

    Raises:
        OSError: a file is not there.
        GgufError: a header cannot be used.
    """
    first = _header(path)
    count = gguf.split_count(first)
    if count == 1:
        return (first,)
    if count > _MOST_PARTS:
        raise gguf.GgufError(f"absurd count: {count} parts")
    return tuple(_header(path.with_name(name)) for name in gguf.split_names(path.name, count))


def layer_weights(path: Path, kept: Sequence[str] = ()) -> LayerWeights | None:
    """Where the bytes of a GGUF's tensors can go; ``None`` for a folder.

    Args:
        path: The file.
        kept: Patterns of names of tensors that stay in host memory.

    Raises:
        UsageError: the file cannot be read; says why.
    """
    if path.is_dir():
        return None
    try:
        return placement.layer_weights(read_gguf(path), kept)
    except OSError as error:
        raise UsageError(f"{error.filename or path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error


def _gguf_shape(path: Path) -> ModelShape:
    return model_shape.from_gguf(read_gguf(path))


def _header(path: Path) -> gguf.GgufHeader:
    with path.open("rb") as file:

        def read(offset: int, n: int) -> bytes:
            file.seek(offset)
            return file.read(n)

        return gguf.read_header(read, path.stat().st_size)


def _hf_shape(folder: Path, honours_windows: bool) -> ModelShape:
    config = folder / "config.json"
    if not config.exists():
        raise UsageError(f"{folder} has no config.json: give a GGUF file or a model's folder")
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    if not weights:
        raise UsageError(
            f"{folder} has no *.safetensors: download the weights, or give a GGUF file"
        )
    loaded = json.loads(config.read_text(encoding="utf-8"))
    return hf_config.from_config(loaded, weights, honours_windows=honours_windows)


def _cgroup(root: Path, folder: str, version: int) -> CgroupMemory | None:
    path, files = root / folder.lstrip("/"), core.CGROUP_FILES[version]
    return core.cgroup_memory(
        f"cgroup {folder}",
        version,
        [read_text(path / name) for name in files.limits],
        read_text(path / files.usage),
        core.parse_stat(read_text(path / files.stat)),
    )
