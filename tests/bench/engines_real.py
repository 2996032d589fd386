"""llama.cpp and vLLM on this machine, on the same weights: where one overtakes the other.

Makes SmolLM2-135M-Instruct in three forms (bf16 for vLLM, BF16 and Q4_1 for llama.cpp), sweeps
them with `edgesweep-agent sweep --plan`, brings the run to a collector, and writes what that says
as a Markdown page: `same bits` and `best of each`, in chat and in a fan-out. Everything lies in
`--out`. `--quick` is one session of few levels. Without `--vllm-python` an environment for vLLM
is made first (3.5 GB).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from socket import create_server

import gguf
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "demo"))
from client_cost import stop_in_order
from peers.install import install
from ratios import table

import demo
import models

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
HERE = Path(__file__).parent
VLLM, SAME, BEST = "vLLM bf16", "llama.cpp BF16", "llama.cpp Q4_1"
PAIRS = {"Same bits": (SAME, VLLM), "Best of each": (BEST, VLLM)}
METRICS = {
    "chat": ("output_tokens_per_s", "ttft_s", "tpot_s", "e2e_s"),
    "fanout": ("makespan_cold_s", "makespan_warm_s"),
}
COLUMNS = {
    "chat": ("output_tokens_per_s", "ttft_s", "tpot_s", "e2e_s", "foreign_cpu_share"),
    "fanout": ("makespan_cold_s", "makespan_warm_s", "prefix_hit_share", "foreign_cpu_share"),
}
HEAD = """\
name = "{name}"
levels = {levels}
order = "{order}"
sessions = {sessions}
min_requests = {requests}
start_timeout = "900s"
[[workloads]]
{workload}
"""
CHAT = """\
prompt_tokens = 64
output_tokens = 32"""
FANOUT = """\
kind = "fanout"
shared_tokens = 192
prompt_tokens = 32
output_tokens = 16"""
CONTENDER = """\
[[contenders]]
mode = "managed"
name = "{name}"
model = "{model}"
slots = {slots}
context_per_request = {context}
prefix_cache = {prefix_cache}
{rest}
"""


def main() -> int:
    options = arguments()
    stop_in_order()
    began_s = time.monotonic()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    contenders = prepare(options, out)
    plans = {
        kind: write_plan(kind, contenders, options, out / f"{kind}.toml")
        for kind in options.workload or METRICS
    }
    if options.prepare:
        return 0
    settings(out)
    codes = {}
    with ExitStack() as running:
        # The demo's daemons, in our folder.
        demo.OUT = out
        running.enter_context(
            demo._service("edgesweep-collector", "serve", config="collector.toml")
        )
        running.enter_context(demo._service("edgesweep-agent", "serve", config="agent.toml"))
        for kind, plan in plans.items():
            codes[kind] = sweep(plan, out)
            demo._deliver()
    page = Page(out, contenders, codes, time.monotonic() - began_s)
    (out / "engines.md").write_text(page.text(), encoding="utf-8")
    print(f"Written: {out / 'engines.md'}")
    return max(codes.values())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm-python", type=Path, help="a Python that has vllm")
    parser.add_argument("--without-vllm", action="store_true", help="llama.cpp's part alone")
    parser.add_argument("--vllm-threads", type=int, help="left to vLLM, which spares a core")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of llama.cpp")
    parser.add_argument("--quick", action="store_true", help="one session, below 20 minutes")
    parser.add_argument("--workload", action="append", choices=METRICS, help="both by default")
    parser.add_argument("--levels", help="of the chat, with commas")
    parser.add_argument("--out", type=Path, default=ROOT / "build/engines-real")
    parser.add_argument("--prepare", action="store_true", help="models and plans alone")
    return parser.parse_args()


def prepare(options: argparse.Namespace, out: Path) -> dict[str, dict[str, object]]:
    """The models, and what each contender has in a plan beside slots and context."""
    q4 = models.packaged()
    threads = f"threads = {options.threads}"
    bf16 = as_bf16(q4, out / "SmolLM2-135M-Instruct.BF16.gguf")
    found = {
        SAME: {"model": bf16, "rest": threads},
        BEST: {"model": q4, "rest": threads},
    }
    if options.without_vllm:
        return found
    python = options.vllm_python
    if python is None:
        python = out / "vllm/bin/python"
        if not python.exists() and install(out / "vllm", "vllm", sys.executable):
            raise SystemExit("vLLM could not be installed: --vllm-python names one that is there")
    folder = out / "SmolLM2-135M-Instruct-bf16"
    if not (folder / "tokenizer.json").exists():
        quiet = os.environ | {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
        subprocess.run([python, HERE / "hf_bf16.py", q4, folder], check=True, env=quiet)
    rest = f'engine = "vllm"\nserver = "vllm"\nprogram = "{Path(python).absolute()}"'
    if options.vllm_threads:
        rest += f"\nthreads = {options.vllm_threads}"
    return found | {VLLM: {"model": folder, "rest": rest}}


def as_bf16(source: Path, target: Path) -> Path:
    """The weights as BF16, and what stays F32 with values that bf16 has too: the same bits."""
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return target
    kind, reader = gguf.GGMLQuantizationType.BF16, gguf.GGUFReader(source)
    beside = target.with_name(target.name + ".tmp")
    writer = gguf.GGUFWriter(beside, str(reader.fields["general.architecture"].contents()))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    models._copy_metadata(reader, writer)
    for tensor in reader.tensors:
        weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        rounded = gguf.quants.quantize(weights, kind)
        if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(tensor.name, gguf.quants.dequantize(rounded, kind))
        else:
            writer.add_tensor(tensor.name, rounded, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    beside.replace(target)
    return target


def write_plan(kind: str, contenders: dict, options: argparse.Namespace, path: Path) -> Path:
    """Chat with the prefix cache off, the fan-out with it on."""
    chat = kind == "chat"
    levels = [1, 2, 4, 8] if options.quick else [1, 2, 4, 8, 16]
    if not chat:
        levels = [1, 4] if options.quick else [1, 2, 4, 8]
    elif options.levels:
        levels = [int(level) for level in options.levels.split(",")]
    # The joint question of a fan-out holds what all of its requests found.
    sizes = {"slots": max(levels), "context": 512 if chat else 768}
    text = HEAD.format(
        name=f"engines, {kind}",
        levels=levels,
        order="ascending" if options.quick else "shuffled",
        sessions=3 if chat and not options.quick else 1,
        requests=11 if options.quick else 24,
        workload=CHAT if chat else FANOUT,
    )
    for name, fields in contenders.items():
        # A quick fan-out asks for the best of each alone.
        if chat or not options.quick or name != SAME:
            caching = "false" if chat else "true"
            text += CONTENDER.format(name=name, prefix_cache=caching, **sizes, **fields)
    path.write_text(text, encoding="utf-8")
    return path


def settings(out: Path) -> None:
    """The demo's two configurations; an earlier run's archive and spool go."""
    for left in ("archive.db", "spool.db", "chat.json", "fanout.json"):
        for file in out.glob(left + "*"):
            file.unlink()
    with create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (out / "collector.toml").write_text(demo.COLLECTOR.format(out=out, port=port))
    (out / "agent.toml").write_text(demo.AGENT.format(port=port))


def sweep(plan: Path, out: Path) -> int:
    command = [BIN / "edgesweep-agent", "sweep", "--plan", plan, "--submit"]
    command += ["--config", out / "agent.toml", "--json", plan.with_suffix(".json")]
    return subprocess.run(
        [*command, "--samples", plan.with_suffix(".jsonl")], check=False
    ).returncode


class Page:
    """What was found, as Markdown."""

    def __init__(self, out: Path, contenders: dict, codes: dict[str, int], took_s: float) -> None:
        self._out, self._contenders, self._codes = out, contenders, codes
        self._took_s = took_s

    def text(self) -> str:
        runs = {kind: json.loads((self._out / f"{kind}.json").read_text()) for kind in self._codes}
        parts = ["# llama.cpp and vLLM on one machine\n", self._opening(next(iter(runs.values())))]
        for kind, run in runs.items():
            parts.append(f"## {kind}: {run['levels'][0]['workload']}\n")
            if self._codes[kind]:
                parts.append(f"The sweep ended with exit code {self._codes[kind]}.\n")
            parts += self._verdicts(kind, run)
            parts.append(levels(kind, run))
        return "\n".join(parts)

    def _opening(self, run: dict) -> str:
        attributes = run["device"]["attributes"]
        facts = [f"- {name}: {value}" for name, value in attributes.items()
                 if name not in {"hostname_hash", "labels"}]  # fmt: skip
        kinds = [
            f"- {one['name']}: {one['engine']} {one['engine_version']}, "
            f"{one['weight_format'] or 'weights as in their folder'}, "
            f"{one['slots']} slots of {one['context_per_request']} tokens"
            for one in run["contenders"].values()
        ]
        lines = [f"{run['device']['hardware_class']}, {self._took_s / 60:.0f} min in all.\n"]
        return "\n".join([*lines, *facts, "", *kinds, ""])

    def _verdicts(self, kind: str, run: dict) -> list[str]:
        there = {one["name"] for one in run["contenders"].values()}
        pairs = {title: pair for title, pair in PAIRS.items() if there >= set(pair)}
        if not pairs and len(there) == 2:
            pairs = {"The two that ran": tuple(sorted(there))}
        found = []
        for title, pair in pairs.items():
            command = [BIN / "edgesweep-collector", "compare", "--run", run["run_id"]]
            command += ["--config", self._out / "collector.toml", "--contenders", *pair]
            command += [word for metric in METRICS[kind] for word in ("--metric", metric)]
            result = subprocess.run(command, check=False, capture_output=True, text=True)
            said = (result.stdout + result.stderr).strip()
            found.append(f"### {title}: {' and '.join(pair)}\n\n```\n{said}\n```\n")
        return found


def levels(kind: str, run: dict) -> str:
    """Every level with its flags."""
    names = {key: one["name"] for key, one in run["contenders"].items()}
    rows = [
        [
            names[level["contender_id"]],
            str(level["session"]),
            str(level["concurrency"]),
            *(figure(level.get(name)) for name in COLUMNS[kind]),
            level["status"],
            ", ".join(level["flags"]) or level["reason"],
        ]
        for level in run["levels"]
    ]
    heads = ["contender", "session", "level", *COLUMNS[kind], "status", "flags or reason"]
    return "Medians of each level; `foreign_cpu_share` is what others took.\n\n" + table(
        heads, rows
    )


def figure(value) -> str:
    if isinstance(value, dict):
        value = value["p50"] if value["p50"] is not None else value["mean"]
    return "" if value is None else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
