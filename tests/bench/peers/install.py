"""Makes an environment for each of the peers: DIR/vllm, DIR/aiperf, DIR/guidellm.

    python tests/bench/peers/install.py DIR [--python /path/to/python3.11] [NAME ...]

Then ``client_cost.py --peer NAME=DIR/NAME/bin/python``. Each wants several minutes, vLLM and
GuideLLM several gigabytes: both need torch.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
UNWANTED = {"vllm": ("torchvision", "torchaudio", "torchcodec")}
"""They do not load beside torch for the CPU, and vLLM's client needs none of them."""


def main() -> int:
    known = sorted(file.stem for file in HERE.glob("*.txt"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", nargs="*", default=known)
    parser.add_argument("--python", default=sys.executable, help="3.11 has all three")
    options = parser.parse_intermixed_args()
    if unknown := set(options.name) - set(known):
        parser.error(f"no peer {', '.join(sorted(unknown))}; there is {', '.join(known)}")
    return max(install(options.folder / name, name, options.python) for name in options.name)


def install(folder: Path, name: str, python: str) -> int:
    """Make one; returns pip's exit code."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    pip = [folder / "bin/python", "-m", "pip"]
    wanted = ["-r", HERE / f"{name}.txt"]
    code = subprocess.run([*pip, "install", "--quiet", *wanted], check=False).returncode
    if code == 0 and name in UNWANTED:
        subprocess.run([*pip, "uninstall", "--quiet", "--yes", *UNWANTED[name]], check=True)
    print(f"{name}: {'in ' + str(folder) if code == 0 else f'pip ended with {code}'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
