"""Whether the memory verdict is right: drawn cases, each in a memory cgroup of its own.

A case is a random model of one of four architectures, a context, a level and a limit. The verdict
is taken first; then the real engine is started in the cgroup and every slot is filled to its
context, whatever the verdict was. Right is an admitted level that holds, and a skipped one that the
guard has to end. The kernel must have to kill nothing. Needs root, a memory cgroup that may be
written, and xllamacpp; each worker uses a copy of the engine's libraries of its own, so that their
pages count in its cgroup as they would on a box that has just booted.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from edgesweep_agent import memory
from edgesweep_agent.core.pressure import Limits
from edgesweep_agent.core.verdict import LlamaCpp, judge
from edgesweep_agent.guard import guard
from memory_cgroup import MemoryCgroup
from random_gguf import Recipe, write

if TYPE_CHECKING:
    import subprocess

MIB = 2**20
RESERVE = 24 * MIB
ARCHITECTURES = ("llama", "gemma3", "deepseek2", "lfm2")
READY_S, MOST_TOKENS = 120, 4096


@dataclass(frozen=True)
class Case:
    number: int
    recipe: Recipe
    slots: int
    context: int
    share: float
    """The limit, as a share of what the verdict needs and the reserve."""


@dataclass(frozen=True)
class Outcome:
    admitted: bool
    held: bool
    breach: str | None
    kills: int
    needed: int
    peak: int | None
    detail: str = ""

    @property
    def right(self) -> bool:
        return self.held if self.admitted else self.breach is not None


def draw(number: int, seed: int) -> Case:
    rng = random.Random(f"{seed}-{number}")
    arch = ARCHITECTURES[number % len(ARCHITECTURES)]
    context = rng.choice([512, 1024, 1536, 2048, 3072])
    slots = rng.choice([n for n in (1, 2, 3, 4, 6, 8) if n * context <= MOST_TOKENS])
    heads = 8 if arch != "lfm2" else 4
    recipe = Recipe(
        arch=arch,
        layers=rng.choice([8, 16]),
        embd=256 if arch == "lfm2" else 64,
        heads=heads,
        kv_heads=rng.choice([2, 4, heads]),
        head_dim=64,
        ffn=rng.choice([128, 512]),
        vocab=rng.choice([4096, 16384]),
        seed=number,
    )
    return Case(number, recipe, slots, context, rng.uniform(0.6, 1.6))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=104)
    parser.add_argument("--hold", type=float, default=30, help="seconds at full context")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if reason := MemoryCgroup.unusable():
        sys.exit(f"memory-cases: {reason}")
    outcomes: dict[int, tuple[Case, Outcome]] = {}
    cases = iter([draw(number, arguments.seed) for number in range(arguments.cases)])
    with tempfile.TemporaryDirectory(prefix="memory-cases-") as folder:
        async with anyio.create_task_group() as tasks:
            for worker in range(arguments.parallel):
                place = Path(folder) / str(worker)
                shutil.copytree(
                    Path(find_spec("xllamacpp").origin).parent, place / "libraries/xllamacpp"
                )
                tasks.start_soon(work, place, cases, arguments.hold, outcomes)
    print(summary(outcomes))
    sys.exit(any(not one.right or one.kills for _, one in outcomes.values()))


async def work(place: Path, cases, hold: float, outcomes: dict) -> None:
    for case in cases:
        outcome = await run_case(case, place, hold)
        outcomes[case.number] = (case, outcome)
        print(line(case, outcome), file=sys.stderr, flush=True)


async def run_case(case: Case, place: Path, hold: float) -> Outcome:
    model = write(place / "model.gguf", case.recipe)
    shape = memory.model(model)
    setup = LlamaCpp(case.slots, case.context)
    needed = sum(size for _, size in setup.needs(shape))
    forget(place)
    with MemoryCgroup(round((needed + RESERVE) * case.share)) as cgroup:
        box = cgroup.available()
        verdict = judge(
            shape,
            setup,
            available_bytes=box.available_bytes,
            reserve_bytes=RESERVE,
            limited_by=box.limited_by,
        )
        limits = Limits(RESERVE, mapped_bytes=verdict.mapped_bytes)
        port = free_port()
        server = cgroup.start(serve(case, model, port), {"PYTHONPATH": f"{place}/libraries"})
        try:
            async with guard(limits, [server.pid], lambda _: end(server)) as watch:
                held, detail = await fill(case, server, port, hold)
                report = watch.report()
        finally:
            end(server)
            server.wait()
        kills = cgroup.kills()
    held = held and report.breach is None and not kills
    peak = report.used_peak_bytes
    return Outcome(verdict.admit, held, report.breach, kills, needed, peak, detail)


def serve(case: Case, model: Path, port: int) -> list[str]:
    settings = {
        "n_parallel": case.slots,
        "n_ctx": case.slots * case.context,
        "cpuparams.n_threads": 2,
        "kv_unified": "false",
        "fit_params": "false",
        "cache_prompt": "false",
        "cache_ram_mib": 0,
        "n_ctx_checkpoints": 0,
        "ui": "false",
        "offline": "true",
    }
    command = [sys.executable, "-m", "edgesweep_agent.servers.xllamacpp_serve"]
    command += ["--model", str(model), "--port", str(port)]
    return [*command, *(f"--set={name}={value}" for name, value in settings.items())]


async def fill(case: Case, server: subprocess.Popen, port: int, hold: float) -> tuple[bool, str]:
    """Whether every slot held its whole context for so long, and what went wrong if not."""
    url, start = f"http://127.0.0.1:{port}", time.monotonic()
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        while time.monotonic() - start < READY_S:
            if server.poll() is not None:
                return False, f"ended with {server.returncode}"
            try:
                if (await client.get("/health")).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            await anyio.sleep(0.1)
        problems: list[str] = []
        until = time.monotonic() + hold
        async with anyio.create_task_group() as tasks:
            for slot in range(case.slots):
                tasks.start_soon(occupy, client, case, slot, until, problems)
    return not problems, "; ".join(problems[:1])


async def occupy(
    client: httpx.AsyncClient, case: Case, slot: int, until: float, problems: list[str]
) -> None:
    prompt = [(7 * n + 13 * slot) % 200 + 300 for n in range(case.context - 24)]
    body = {"prompt": prompt, "n_predict": 16, "ignore_eos": True, "id_slot": slot}
    while not problems:
        try:
            answer = await client.post("/completion", json=body)
        except httpx.TransportError as error:
            problems.append(type(error).__name__)
            return
        if answer.status_code != 200:
            problems.append(answer.text[:200])
        if time.monotonic() > until:
            return


def forget(place: Path) -> None:
    """Drop the worker's files from the cache, so that the next to read them is charged."""
    for path in place.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def end(server: subprocess.Popen) -> None:
    if server.poll() is None:
        server.send_signal(signal.SIGKILL)


def line(case: Case, outcome: Outcome) -> str:
    verdict = "admit" if outcome.admitted else "skip"
    did = "held" if outcome.held else "ended" if outcome.breach else f"failed ({outcome.detail})"
    peak = f"{outcome.peak / MIB:.1f}" if outcome.peak else "?"
    return (
        f"{case.number:4} {'right' if outcome.right else 'WRONG'} {verdict:5} {did} "
        f"{case.recipe.arch} {case.slots} x {case.context} layers {case.recipe.layers} "
        f"limit {case.share:.3f} needed {outcome.needed / MIB:.1f} MiB used {peak} MiB "
        f"kills {outcome.kills}"
    )


def summary(outcomes: dict[int, tuple[Case, Outcome]]) -> str:
    every = [outcome for _, outcome in outcomes.values()]
    right = sum(outcome.right for outcome in every)
    wrong = Counter(
        "admitted, did not hold" if outcome.admitted else "skipped, would have held"
        for outcome in every
        if not outcome.right
    )
    errors = sorted(o.peak / o.needed - 1 for o in every if o.held and o.peak)
    rows = {
        "cases": len(every),
        "right": f"{right} ({right / len(every):.1%})",
        "wrong": ", ".join(f"{count} {kind}" for kind, count in wrong.items()) or "none",
        "admitted and held": sum(o.admitted and o.held for o in every),
        "skipped, tried and ended by the guard": sum(
            not o.admitted and o.breach is not None for o in every
        ),
        "killed by the kernel": sum(o.kills for o in every),
        "used against needed": f"{errors[0]:+.1%} to {errors[-1]:+.1%}" if errors else "-",
    }
    body = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"| memory verdicts | |\n|---|---|\n{body}"


if __name__ == "__main__":
    anyio.run(main)
