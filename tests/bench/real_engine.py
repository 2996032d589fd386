"""Whether the figures of a real engine are the engine's: other clients, its ceiling, the wire.

    agree     throughput, TPOT and first chunk beside `vllm bench serve` on one server, in turns
    ceiling   throughput beside the same engine asked in its own process, without HTTP or client
    capture   TTFT and gaps beside a packet capture of the loopback, the engine on all cores

Each starts llama.cpp (PyPI's `xllamacpp`, SmolLM2-135M) with its caches off, unless `agree` is
given `--url`. Prints Markdown; `--json` keeps every figure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import packets
from client_cost import existing, stop_in_order
from ratios import quantile, ratio, spread, table
from real_clients import (
    RealSweep,
    RealVllmBench,
    Told,
    ask,
    llamacpp,
    packaged_model,
    write_prompts,
)

CAPTURE = Path(__file__).with_name("packets.py")
INPROCESS = Path(__file__).with_name("inprocess.py")
AGREE = {
    "tokens_per_s": "output tokens a second, as reported",
    "same_tokens_per_s": "output tokens a second, one formula",
    "tpot_s": "TPOT, median, as reported",
    "same_tpot_s": "TPOT, median, one formula",
    "ttfr_s": "first chunk of any kind, median, as reported",
    "same_ttfr_s": "first chunk of any kind, median, one formula",
    "prompt_tokens": "prompt tokens, as the engine counts",
    "output_tokens": "output tokens, as the engine counts",
}
_NEAR_NS = 50_000_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True, dest="verb")
    defaults = {agree: (48, 45, 32), ceiling: (48, 45, 32), capture: (700, 12, 16)}
    for verb, (requests, words, tokens) in defaults.items():
        sub = verbs.add_parser(verb.__name__)
        sub.set_defaults(verb=verb)
        sub.add_argument("--streams", type=int, default=4)
        sub.add_argument("--threads", type=int, default=os.cpu_count())
        sub.add_argument("--requests", type=int, default=requests)
        sub.add_argument("--prompt-words", type=int, default=words)
        sub.add_argument("--tokens", type=int, default=tokens, help="of an answer, on average")
        sub.add_argument("--model", type=Path, default=packaged_model(), help="a GGUF file")
        sub.add_argument("--json", type=Path)
        if verb is not capture:
            sub.add_argument("--pairs", type=int, default=15)
        if verb is not ceiling:
            sub.add_argument("--peer", type=existing, help="a Python that has vllm")
            sub.add_argument("--tokenizer", type=existing, help="a folder with one, for the peer")
    sub = verbs.choices["agree"]
    sub.add_argument("--url", help="a server that is there already")
    sub.add_argument("--served-name", default="model", help="of the model of --url")
    options = parser.parse_args()
    wants_peer = options.verb is agree or getattr(options, "peer", None)
    if wants_peer and not (options.peer and options.tokenizer):
        parser.error("needs --peer and --tokenizer")
    stop_in_order()
    with tempfile.TemporaryDirectory() as folder:
        found = options.verb(options, Path(folder))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


def prompts(options: argparse.Namespace, folder: Path, seed: int) -> Path:
    path = folder / f"prompts-{seed}.jsonl"
    return write_prompts(path, options.requests, options.prompt_words, options.tokens, seed)


def agree(options: argparse.Namespace, folder: Path) -> dict:
    rows = []
    server = llamacpp(options.model, options.streams, options.threads)
    with nullcontext(options.url) if options.url else server as url:
        for turn in range(options.pairs):
            path = prompts(options, folder, turn)
            clients = [
                RealSweep(path),
                RealVllmBench(options.peer, options.tokenizer, path, options.served_name),
            ]
            for client in clients[:: -1 if turn % 2 else 1]:
                told = ask(client, url, options.streams, options.requests)
                rows.append({"turn": turn, **asdict(told)})
                progress(turn, told)
    show_agreement(rows)
    return {"rows": rows}


def progress(turn: int, told: Told) -> None:
    figures = f"{told.tokens_per_s:.1f} tokens/s, TPOT {told.tpot_s * 1e3:.2f} ms"
    flags = f", {', '.join(told.flags)}" if told.flags else ""
    print(f"turn {turn + 1}: {told.client}: {figures}{flags}", file=sys.stderr)


def show_agreement(rows: list[dict]) -> None:
    ours, theirs = (
        sorted((row for row in rows if row["client"] == name), key=lambda row: row["turn"])
        for name in ("edgesweep", "vllm")
    )
    print("Median (range); the ratio's geometric mean (95 % interval) over pairs:\n")
    lines = [
        [
            words,
            spread([row[key] for row in ours]),
            spread([row[key] for row in theirs]),
            str(ratio([(a[key], b[key]) for a, b in zip(ours, theirs, strict=True)])),
        ]
        for key, words in AGREE.items()
    ]
    print(table(["", "edgesweep", "vllm bench serve", "ratio"], lines))
    flagged = [row for row in ours if row["flags"]]
    told = sorted({flag for row in flagged for flag in row["flags"]})
    print(f"{len(flagged)} of {len(ours)} levels carried a flag: {', '.join(told) or 'none'}.")


def ceiling(options: argparse.Namespace, folder: Path) -> dict:
    rows = []
    for turn in range(options.pairs):
        path = prompts(options, folder, turn)
        row = {}
        for kind in (over_http, in_process)[:: -1 if turn % 2 else 1]:
            row[kind.__name__] = kind(options, path)
        rows.append(row)
        print(f"turn {turn + 1}: {row}", file=sys.stderr)
    pairs = [(row["over_http"], row["in_process"]) for row in rows]
    print(
        table(
            ["", "output tokens a second, median (range)"],
            [
                ["over HTTP, by edgesweep", spread([a for a, _ in pairs])],
                ["in the engine's process", spread([b for _, b in pairs])],
                ["ratio (95 % interval)", str(ratio(pairs))],
            ],
        )
    )
    return {"rows": rows}


def over_http(options: argparse.Namespace, path: Path) -> float:
    with llamacpp(options.model, options.streams, options.threads) as url:
        return ask(RealSweep(path), url, options.streams, options.requests).same_tokens_per_s


def in_process(options: argparse.Namespace, path: Path) -> float:
    sizes = [str(options.streams), str(options.threads), str(path), str(options.requests)]
    command = [sys.executable, str(INPROCESS), str(options.model), *sizes]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(result.stdout.splitlines()[-1])["tokens_per_s"]


def capture(options: argparse.Namespace, folder: Path) -> dict:
    path, found = prompts(options, folder, 0), {}
    clients = {"edgesweep": RealSweep(path)}
    if options.peer:
        clients["vllm"] = RealVllmBench(options.peer, options.tokenizer, path, "model")
    with llamacpp(options.model, options.streams, options.threads) as url:
        for name, client in clients.items():
            told, seen = captured(client, url, options, folder / f"{name}.packets")
            found[name] = {**errors(told, seen), "flags": list(told.flags)}
    names = ["answers", "chunk counts that differ", "gaps"]
    names += [f"{what}, {how}, ms" for what in ("ttfr", "ttft", "gap") for how in ("p50", "p99")]
    lines = [[name, *(cell(one[name]) for one in found.values())] for name in names]
    print(f"{options.streams} streams; error against the packets:\n")
    print(table(["", *found], lines))
    return found


def captured(client, url: str, options: argparse.Namespace, path: Path) -> tuple:
    port = url.rpartition(":")[2]
    command = [sys.executable, str(CAPTURE), port, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as tap:
        if tap.stdout.readline().strip() != "capturing":
            raise SystemExit("no capture: it wants the right to open raw sockets (CAP_NET_RAW)")
        told = ask(client, url, options.streams, options.requests)
        tap.stdin.close()
        if tap.wait(120):
            raise SystemExit("the capture failed")
    return told, packets.answers(path, int(port))


def errors(told: Told, seen: list[packets.Answer]) -> dict:
    by_text, found = {}, {"ttfr": [], "ttft": [], "gap": []}
    for answer in seen:
        by_text.setdefault(answer.text, []).append(answer)
    matched, unequal = 0, 0
    for one in told.answers:
        near = min(
            by_text.get(one.key, []),
            key=lambda answer: abs(answer.request_ns - one.t_send_ns),
            default=None,
        )
        if near is None or abs(near.request_ns - one.t_send_ns) > _NEAR_NS:
            continue
        matched += 1
        first_ns = near.text_ns[0] - near.request_ns
        found["ttft"].append(abs(one.ttft_s * 1e3 - first_ns / 1e6))
        if one.ttfr_s is not None:
            found["ttfr"].append(abs(one.ttfr_s * 1e3 - (near.opened_ns - near.request_ns) / 1e6))
        gaps_ns = [b - a for a, b in zip(near.text_ns, near.text_ns[1:], strict=False)]
        if len(gaps_ns) != len(one.gaps_s):
            unequal += 1
            continue
        pairs = zip(one.gaps_s, gaps_ns, strict=True)
        found["gap"] += [abs(gap * 1e3 - true / 1e6) for gap, true in pairs]
    counts = {"answers": f"{matched} of {len(told.answers)}", "chunk counts that differ": unequal}
    return counts | {"gaps": len(found["gap"])} | {
        f"{what}, p{round(100 * p)}, ms": quantile(values, p)
        for what, values in found.items() for p in (0.5, 0.99)
    }  # fmt: skip


def cell(value) -> str:
    if value is None:
        return "not told"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
