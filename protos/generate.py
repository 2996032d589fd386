"""Generate the code of the wire format, or check that what is checked in is what it would be.

The output is checked in, since a device must not need a compiler, and is used as it comes.
"""

from __future__ import annotations

import argparse
import filecmp
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

_GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")


def main() -> int:
    """Generate into the source root, or compare with it; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="the source root that holds edgesweep/v1")
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    arguments = parser.parse_args()
    if not arguments.check:
        _generate(arguments.root, arguments.root)
        return 0
    with tempfile.TemporaryDirectory() as fresh:
        _generate(arguments.root, Path(fresh))
        stale = _differences(arguments.root / "edgesweep/v1", Path(fresh) / "edgesweep/v1")
    for name in stale:
        print(f"{name} is not what its .proto file gives: run make protos", file=sys.stderr)
    return 1 if stale else 0


def _generate(root: Path, out: Path) -> None:
    for source in sorted(root.glob("edgesweep/v1/*.proto")):
        outputs = [f"--python_out={out}", f"--pyi_out={out}"]
        # A file without a service would leave an empty stub behind.
        if "\nservice " in source.read_text(encoding="utf-8"):
            outputs.append(f"--grpc_python_out={out}")
        if protoc.main(["protoc", f"-I{root}", *outputs, str(source)]):
            raise SystemExit(1)


def _differences(checked_in: Path, fresh: Path) -> list[str]:
    names = {
        file.name for at in (checked_in, fresh) for kind in _GENERATED for file in at.glob(kind)
    }
    return sorted(
        name
        for name in names
        if not (checked_in / name).exists()
        or not (fresh / name).exists()
        or not filecmp.cmp(checked_in / name, fresh / name, shallow=False)
    )


if __name__ == "__main__":
    sys.exit(main())
