"""Run by exec: serves one GGUF model with llama.cpp's HTTP API until told to stop.

Everything that could differ between two starts is pinned, and every cache is off, so that a
sweep measures the engine and not what the sweep before it left behind: the prompt cache alone
may take 8 GiB (ggml-org/llama.cpp#20509), and ``--fit`` would change what was asked for.
"""

from __future__ import annotations

import argparse
import ctypes
import signal
from pathlib import Path

import xllamacpp

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until SIGTERM or SIGINT, or until the parent is gone."""
    arguments = _parse()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    server = xllamacpp.Server(_parameters(arguments))
    print(f"listening on {server.listening_address}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    del server


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--context-per-request", type=int, required=True)
    parser.add_argument("--threads", type=int)
    return parser.parse_args()


def _parameters(arguments: argparse.Namespace) -> xllamacpp.CommonParams:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(arguments.model)
    parameters.model_alias = {arguments.model.stem}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = arguments.port
    parameters.n_parallel = arguments.slots
    parameters.n_ctx = arguments.slots * arguments.context_per_request
    if arguments.threads is not None:
        parameters.cpuparams.n_threads = arguments.threads
    parameters.kv_unified = False
    parameters.fit_params = False
    parameters.cache_prompt = False
    parameters.cache_ram_mib = 0
    parameters.n_ctx_checkpoints = 0
    parameters.endpoint_metrics = True
    parameters.endpoint_slots = True
    parameters.ui = False
    parameters.offline = True
    return parameters


if __name__ == "__main__":
    main()
