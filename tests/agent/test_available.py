from __future__ import annotations

import pytest

from edgesweep_agent import memory
from edgesweep_agent.core import available as core

MIB, GIB = 2**20, 2**30
MEMINFO = (
    "MemTotal:       8000000 kB\nMemFree:        1000000 kB\nMemAvailable:   6000000 kB\n"
    "Buffers:         100000 kB\nCached:         4000000 kB\nShmem:           200000 kB\n"
    "HugePages_Total:       0\n"
)
MEM_AVAILABLE = 6_000_000 * 1024
V2 = "30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "32 24 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
)
HYBRID = V1 + "33 24 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
LIMITS = "Limit                     Soft Limit           Hard Limit           Units\n"


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def process(cgroup="", mountinfo="", limits="", meminfo=MEMINFO):
    files = {"meminfo": meminfo, "self/cgroup": cgroup, "self/mountinfo": mountinfo}
    return {f"proc/{name}": text for name, text in (files | {"self/limits": limits}).items()}


def v2(folder, limit, usage, stat="", **others):
    names = {"max": limit, "current": str(usage), "stat": stat, **others}
    return {f"sys/fs/cgroup{folder}/memory.{name}": f"{text}\n" for name, text in names.items()}


def v1(folder, limit, usage, stat=""):
    names = {"limit_in_bytes": limit, "usage_in_bytes": usage, "stat": stat}
    return {
        f"sys/fs/cgroup/memory{folder}/memory.{name}": f"{text}\n" for name, text in names.items()
    }


SENTINEL = 9223372036854771712


@pytest.mark.parametrize(
    ("files", "available", "limited_by"),
    [
        (process(), MEM_AVAILABLE, "MemAvailable"),
        (process("0::/a/b\n", V2) | v2("/a/b", "max", 10) | v2("/a", 2 * GIB, GIB),
         GIB, "cgroup /sys/fs/cgroup/a"),
        (process("0::/a/b\n", V2) | v2("/a/b", GIB, 200 * MIB) | v2("/a", 3 * GIB, 2 * GIB),
         GIB - 200 * MIB, "cgroup /sys/fs/cgroup/a/b"),
        (process("0::/a\n", V2) | v2("/a", 4 * GIB, GIB, high=2 * GIB),
         GIB, "cgroup /sys/fs/cgroup/a"),
        (process("0::/a\n", V2) | v2("/a", 2 * GIB, GIB, f"inactive_file {GIB // 2}"),
         GIB * 3 // 2, "cgroup /sys/fs/cgroup/a"),
        (process("4:memory:/x\n", V1) | v1("/x", GIB, 300 * MIB,
                                           f"inactive_file 7\ntotal_inactive_file {100 * MIB}"),
         GIB - 200 * MIB, "cgroup /sys/fs/cgroup/memory/x"),
        (process("4:memory:/x\n0::/\n", HYBRID) | v1("/x", GIB, 0) | v1("", SENTINEL, 9 * GIB),
         GIB, "cgroup /sys/fs/cgroup/memory/x"),
        (process("4:memory:/x\n", V1) | v1("/x", SENTINEL, GIB), MEM_AVAILABLE, "MemAvailable"),
        # A Raspberry Pi whose kernel has the memory controller switched off.
        (process("0::/user.slice\n", V2), MEM_AVAILABLE, "MemAvailable"),
        # A container: the mount shows the container's own part of the tree.
        (process("0::/\n", V2) | v2("", GIB, 0), GIB, "cgroup /sys/fs/cgroup"),
        (process("4:memory:/docker/c1\n", V1.replace("0:27 /", "0:27 /docker/c1"))
         | v1("", GIB, 0), GIB, "cgroup /sys/fs/cgroup/memory"),
        (process("0::/../other\n", V2) | v2("", GIB, 0), GIB, "cgroup /sys/fs/cgroup"),
        # Without mountinfo the usual places are looked at.
        (process("0::/a\n") | v2("/a", GIB, 0), GIB, "cgroup /sys/fs/cgroup/a"),
        (process(limits=f"{LIMITS}Max address space         {GIB}           unlimited    bytes\n"),
         GIB, "RLIMIT_AS"),
        (process(limits=f"{LIMITS}Max address space         unlimited   unlimited    bytes\n"),
         MEM_AVAILABLE, "MemAvailable"),
        # More is used than a limit that was lowered meanwhile.
        (process("0::/a\n", V2) | v2("/a", GIB, 2 * GIB), 0, "cgroup /sys/fs/cgroup/a"),
        # A kernel before 3.14.
        (process(meminfo=MEMINFO.replace("MemAvailable", "Other")), 4_900_000 * 1024,
         "MemAvailable"),
    ],
)  # fmt: skip
def test_the_smallest_limit_is_found(tmp_path, files, available, limited_by):
    found = memory.available(root=tree(tmp_path, files))
    assert (found.available_bytes, found.limited_by) == (available, limited_by)
    assert found.total_bytes == 8_000_000 * 1024
    assert (limited_by, available) in found.terms


def test_a_gpus_own_memory_may_be_the_limit(tmp_path):
    found = memory.available(root=tree(tmp_path, process()), gpu_free_bytes=GIB)
    assert (found.available_bytes, found.limited_by) == (GIB, "GPU free")


def test_mapped_weights_are_not_free_though_the_kernel_says_so(tmp_path):
    stat = f"inactive_file {800 * MIB}\nactive_file {100 * MIB}"
    files = process("0::/a\n", V2) | v2("/a", 2 * GIB, GIB, stat)
    found = dict(memory.available(root=tree(tmp_path, files), mapped_weights_bytes=GIB).terms)
    assert found["MemAvailable"] == MEM_AVAILABLE - GIB
    # The cgroup holds 900 MiB of files in all, and all of them are needed.
    assert found["cgroup /sys/fs/cgroup/a"] == GIB
    found = dict(memory.available(root=tmp_path, mapped_weights_bytes=200 * MIB).terms)
    assert found["cgroup /sys/fs/cgroup/a"] == GIB + 700 * MIB


def test_a_running_process_has_used_a_part_of_its_address_space(tmp_path):
    limits = f"{LIMITS}Max address space         {2 * GIB}           unlimited    bytes\n"
    files = {
        "proc/meminfo": MEMINFO,
        "proc/7/limits": limits,
        "proc/7/status": "VmSize:\t1024 kB\n",
    }
    found = memory.available(root=tree(tmp_path, files), pid=7)
    assert found.available_bytes == 2 * GIB - MIB


def test_what_cannot_be_read_is_unknown_and_not_zero(tmp_path):
    found = memory.available(root=tmp_path)
    assert (found.total_bytes, found.available_bytes, found.terms) == (None, None, ())
    assert "/proc/meminfo" in found.limited_by


def test_this_machine_has_memory():
    found = memory.available()
    assert 0 < found.available_bytes <= found.total_bytes


@pytest.mark.parametrize("text", ["max", "", "lots", str(SENTINEL), str(2**63 - 1), "-1"])
def test_what_is_no_limit(text):
    assert core.parse_limit(text) is None


def test_escaped_blanks_in_mount_points_are_read():
    (mount,) = core.parse_mounts("1 2 0:3 / /mnt/a\\040b rw - cgroup2 none rw\nnonsense\n")
    assert core.folders("/x/y", mount) == ("/mnt/a b/x/y", "/mnt/a b/x", "/mnt/a b")


@pytest.mark.parametrize(
    ("name", "gib"),
    [("8g", 8), ("16GiB", 16), ("jetson.tegra234.p3767-0005.8g/cpu6@1497.6,gpu@612", 8),
     ("x86_64-4c-16gib", 16)],
)  # fmt: skip
def test_a_class_has_what_its_bucket_leaves(name, gib):
    found = core.of_class(name)
    assert found.total_bytes == int(gib * GIB * 0.91)
    assert found.available_bytes == found.total_bytes - 700 * MIB
    assert f"{gib}g" in found.limited_by


@pytest.mark.parametrize("name", ["", "g", "jetson", "0g", "p3767-0005"])
def test_a_class_without_a_bucket_is_refused(name):
    with pytest.raises(ValueError, match="RAM bucket"):
        core.of_class(name)
