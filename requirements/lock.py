"""Write requirements/*.txt: exact versions with hashes, no index named, for Python 3.10.

Run by ``make lock`` with the oldest supported interpreter, since a version that
exists for it exists for the newer ones too.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import tomli

HERE = Path(__file__).parent
COMPILE = [
    sys.executable, "-m", "piptools", "compile", "--quiet", "--generate-hashes", "--allow-unsafe",
    "--strip-extras", "--no-header", "--no-annotate", "--no-emit-index-url",
    "--no-emit-trusted-host", "--no-emit-find-links", "--no-emit-options",
]  # fmt: skip


def main() -> None:
    """Lock both sides with the development tools, and the demo's engine and model."""
    project = tomli.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    with tempfile.NamedTemporaryFile("w", suffix=".in", encoding="utf-8") as group:
        group.write("\n".join(project["dependency-groups"]["dev"]))
        group.flush()
        sources = ["--extra", "agent", "--extra", "collector", "pyproject.toml", group.name]
        _compile([*sources, "-o", "requirements/dev.txt"])
    _compile(["requirements/demo.in", "-o", "requirements/demo.txt"])
    _keep_only(HERE / "demo.txt", named_in=HERE / "demo.in")


def _keep_only(locked: Path, *, named_in: Path) -> None:
    """Drop what ``named_in`` does not name: the model's package pulls in a compiler's work."""
    wanted = re.findall(r"(?m)^([a-z0-9-]+)==", named_in.read_text(encoding="utf-8"))
    blocks = re.split(r"(?m)^(?=[a-z0-9])", locked.read_text(encoding="utf-8"))
    kept = [block for block in blocks if block.split("==")[0] in wanted]
    locked.write_text("".join(kept), encoding="utf-8")


def _compile(arguments: list[str]) -> None:
    subprocess.run([*COMPILE, *arguments], check=True, cwd=HERE.parent)


if __name__ == "__main__":
    main()
