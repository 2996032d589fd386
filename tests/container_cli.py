"""A stand-in for docker and podman: it notes how it was called, and really runs the program.

What matters of the real ones: the container is no child of the agent, ``run`` stays in the
foreground with the container's output and forwards SIGTERM to its first process, and when that
one ends everything in the container ends with it (a PID namespace).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TAKES_NO_VALUE = frozenset({"--rm"})
DIGEST = "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"


def install(folder: Path) -> Path:
    """An executable for a plan's ``runtime``; its notes lie beside it."""
    path = folder / "docker"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{__file__}" "{folder}" "$@"\n')
    path.chmod(0o755)
    return path


def calls(cli: Path) -> list[list[str]]:
    """How it was called, in order."""
    return [json.loads(line) for line in (cli.parent / "calls").read_text().splitlines()]


def main() -> int:
    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    with (folder / "calls").open("a") as file:
        file.write(json.dumps(arguments) + "\n")
    if arguments[0] == "run":
        return run(folder, arguments[1:])
    if arguments[:2] == ["image", "inspect"]:
        return inspect_image(arguments[2])
    if arguments[0] == "ps":
        wanted = {value for flag, value in itertools.pairwise(arguments) if flag == "--filter"}
        for note in folder.glob("*.container"):
            labels = {f"label={label}" for label in json.loads(note.read_text())["labels"]}
            if wanted <= labels:
                print(note.stem)
        return 0
    return on_container(folder, arguments)


def inspect_image(image: str) -> int:
    if image.startswith("missing"):
        print(f"[]\nError: No such image: {image}", file=sys.stderr)
        return 1
    print(json.dumps([{"Id": "sha256:0", "RepoDigests": [f"registry/{image}@{DIGEST}"]}]))
    return 0


def on_container(folder: Path, arguments: list[str]) -> int:
    note = folder / f"{arguments[-1]}.container"
    if not note.exists():
        print(f"Error: No such container: {arguments[-1]}", file=sys.stderr)
        return 1
    pid = json.loads(note.read_text())["pid"]
    if arguments[0] == "inspect":
        print(pid)
    elif arguments[0] == "stop":
        stop(pid, float(arguments[2]))
    else:
        end(pid)
        note.unlink(missing_ok=True)
    return 0


def run(folder: Path, arguments: list[str]) -> int:
    options, rest = split(arguments)
    argv = rest[1:]
    if "--runtime" in options:
        print(
            f"docker: Error response from daemon: unknown or invalid runtime name: "
            f"{options['--runtime'][0]}",
            file=sys.stderr,
        )
        return 125
    for one in options.get("--mount", []):
        source, target = (part.split("=", 1)[1] for part in one.split(",")[1:3])
        argv = [part.replace(target, source) for part in argv]
    program = [*options.get("--entrypoint", [])] or [(folder / "entrypoint").read_text()]
    environment = dict(one.split("=", 1) for one in options.get("-e", []))
    child = subprocess.Popen(
        [*program, *argv], start_new_session=True, env={**os.environ, **environment}
    )
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child.pid, signal.SIGTERM))
    note = folder / f"{options.get('--name', [str(child.pid)])[0]}.container"
    note.write_text(json.dumps({"pid": child.pid, "labels": options.get("--label", [])}))
    code = child.wait()
    end(child.pid)
    note.unlink(missing_ok=True)
    return 128 - code if code < 0 else code


def split(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    options: dict[str, list[str]] = {}
    while arguments[0].startswith("-"):
        flag, *arguments = arguments
        if flag in TAKES_NO_VALUE:
            continue
        options.setdefault(flag, []).append(arguments.pop(0))
    return options, arguments


def stop(pid: int, within_s: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + within_s
    while time.monotonic() < until and alive(pid):
        time.sleep(0.02)
    end(pid)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
