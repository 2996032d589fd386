"""One real sweep from the engine to the answer, with the commands that a user would type.

A llama.cpp server with the same weights in two formats, an agent, a collector on gRPC: nothing
here is a stand-in. Everything it makes lies in build/demo, and nothing is left running.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from socket import create_connection, create_server
from typing import TYPE_CHECKING

import models

if TYPE_CHECKING:
    from collections.abc import Iterator

OUT = Path(__file__).resolve().parent.parent / "build/demo"
BIN = Path(sys.executable).parent
DELIVER_WITHIN_S = 30.0
STOP_WITHIN_S = 10.0
_WRITTEN = ("run.json", "crossover.json", "report.html")
CAVEAT = (
    "This is a demo: medians only, no interval, one unit, one session, a small request shape.\n"
    "It shows the path of a result, and what this box did just now; it is no verdict on a class."
)

COLLECTOR = """\
[archive]
url = "sqlite:///{out}/archive.db"
[grpc]
listen = "127.0.0.1:{port}"
[log]
level = "info"
"""

AGENT = """\
[device]
id = "demo"
[device.labels]
site = "demo"
[spool]
path = "spool.db"
[control]
socket = "agent.sock"
[uplink]
kind = "grpc"
address = "127.0.0.1:{port}"
"""

PLAN = """\
name = "demo"
levels = [1, 2, 4, 8]
min_requests = 11
requests_per_stream = 3
order = "ascending"
workloads = ["chat-64-32"]
[[contenders]]
mode = "managed"
name = "llama.cpp Q4_1"
model = "{q4}"
slots = 8
context_per_request = 512
threads = {threads}
[[contenders]]
mode = "managed"
name = "llama.cpp F16"
model = "{f16}"
slots = 8
context_per_request = 512
threads = {threads}
"""


def main() -> int:
    """Run the demo; returns the exit code."""
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, _as_interrupt)
    began = time.monotonic()
    try:
        _prepare()
        with ExitStack() as running:
            running.enter_context(_service("edgesweep-collector", "serve", config="collector.toml"))
            running.enter_context(_service("edgesweep-agent", "serve", config="agent.toml"))
            code = _sweep()
            _deliver()
            _answer()
    except KeyboardInterrupt:
        return _interrupted()
    print(f"\n{CAVEAT}\n{time.monotonic() - began:.0f} s in all.")
    return code


def _prepare() -> None:
    """The models, and the three files that an operator would write."""
    OUT.mkdir(parents=True, exist_ok=True)
    for left in ("archive.db", "spool.db", "samples.jsonl", *_WRITTEN):
        for file in OUT.glob(left + "*"):
            file.unlink()
    print("Preparing the models: SmolLM2-135M-Instruct as Q4_1, and the same weights as F16")
    q4 = models.packaged()
    f16 = models.as_f16(q4, OUT / "SmolLM2-135M-Instruct.F16.gguf")
    with create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    threads = min(2, os.cpu_count() or 1)
    (OUT / "collector.toml").write_text(COLLECTOR.format(out=OUT, port=port), encoding="utf-8")
    (OUT / "agent.toml").write_text(AGENT.format(port=port), encoding="utf-8")
    plan = PLAN.format(q4=q4, f16=f16, threads=threads)
    (OUT / "plan.toml").write_text(plan, encoding="utf-8")


@contextmanager
def _service(program: str, *arguments: str, config: str) -> Iterator[None]:
    """A daemon in a group of its own, so that Ctrl-C reaches the sweep first, and it last."""
    log = OUT / f"{program}.log"
    command = [str(BIN / program), *arguments, "--config", str(OUT / config)]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, start_new_session=True)
    try:
        _wait_until_up(process, program, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_up(process: subprocess.Popen[bytes], program: str, log: Path) -> None:
    deadline = time.monotonic() + 20
    while not _is_up(program):
        if process.poll() is not None or time.monotonic() > deadline:
            print(f"{program} did not start:\n{log.read_text(encoding='utf-8')}", file=sys.stderr)
            raise SystemExit(1)
        time.sleep(0.1)


def _is_up(program: str) -> bool:
    if program == "edgesweep-agent":
        return (OUT / "agent.sock").exists()
    address = (OUT / "collector.toml").read_text(encoding="utf-8").split('listen = "')[1]
    host, port = address.split('"')[0].rsplit(":", 1)
    with suppress(OSError):
        create_connection((host, int(port)), timeout=1).close()
        return True
    return False


def _sweep() -> int:
    command = [str(BIN / "edgesweep-agent"), "sweep", "--plan", str(OUT / "plan.toml")]
    command += ["--config", str(OUT / "agent.toml"), "--submit"]
    command += ["--json", str(OUT / "run.json"), "--samples", str(OUT / "samples.jsonl")]
    print(f"$ {_shown(command)}\n")
    # In a group of its own it hears of Ctrl-C from us, once.
    process = subprocess.Popen(command, start_new_session=True)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    if code >= 128:
        raise KeyboardInterrupt
    return code


def _deliver() -> None:
    """Wait until the collector's archive has what the spool held."""
    deadline = time.monotonic() + DELIVER_WITHIN_S
    while True:
        command = [str(BIN / "edgesweep-agent"), "spool", "status", "--json"]
        command += ["--config", str(OUT / "agent.toml")]
        status = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        if not set(status["rows_by_kind"]) - {"heartbeat"}:
            return
        if time.monotonic() > deadline:
            print(f"still in the spool: {status['rows_by_kind']}; it is kept there")
            return
        time.sleep(0.3)


def _answer() -> None:
    """Verdict, comparison and report from what the archive holds."""
    collector, config = str(BIN / "edgesweep-collector"), str(OUT / "collector.toml")
    compare = [collector, "compare", "--config", config]
    shown = [*compare, "--metric", "output_tokens_per_s", "--metric", "ttft_s"]
    print(f"\n$ {_shown(shown)}\n")
    subprocess.run(shown, check=True)
    result = subprocess.run([*compare, "--json"], check=True, capture_output=True)
    (OUT / "crossover.json").write_bytes(result.stdout)
    report = [collector, "report", "--config", config, "--out", str(OUT / "report.html")]
    print(f"$ {_shown(report)}\n")
    subprocess.run([*report, "--reproduce", "make demo"], check=True, capture_output=True)
    print(f"Written: {', '.join(_short(OUT / n) for n in _WRITTEN)}")


def _interrupted() -> int:
    kept = OUT / "run.json"
    if kept.exists():
        levels = json.loads(kept.read_text(encoding="utf-8"))["levels"]
        n = sum(level["status"] in {"valid", "flagged"} for level in levels)
        what = "1 measured level" if n == 1 else f"{n} measured levels"
        print(f"\nInterrupted. Kept: {what} in {_short(kept)}. Nothing is running.")
    else:
        print("\nInterrupted before the first level. Nothing is running.")
    return 130


def _as_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _shown(command: list[str]) -> str:
    program = Path(command[0]).name
    rest = (_short(Path(part)) if "/" in part else part for part in command[1:])
    return " ".join([program, *rest])


def _short(path: Path) -> str:
    with suppress(ValueError):
        return str(path.relative_to(OUT.parent.parent))
    return str(path)


if __name__ == "__main__":
    sys.exit(main())
