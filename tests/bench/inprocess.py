"""What an engine gives without HTTP and without a client: MODEL SLOTS THREADS PROMPTS REQUESTS.

llama.cpp's server in this process, asked by as many threads as it has slots, whole answers at a
time. Prints output tokens a second from the first request to the end of the last.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import xllamacpp
from real_clients import server_settings

from edgesweep_agent.servers import xllamacpp_serve


def main() -> None:
    model, slots, threads, prompts, requests = sys.argv[1:]
    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.hostnames, parameters.port = model, ["127.0.0.1"], 0
    for name, value in server_settings(int(slots), int(threads)).items():
        xllamacpp_serve._set(parameters, f"{name}={value}")
    server = xllamacpp.Server(parameters)
    lines = Path(prompts).read_text(encoding="utf-8").splitlines()
    bodies = [body(json.loads(line)) for line in lines[: int(requests)]]
    ask_all(server, bodies[: 2 * int(slots)], int(slots))
    began_s = time.monotonic()
    tokens = ask_all(server, bodies, int(slots))
    print(json.dumps({"tokens_per_s": tokens / (time.monotonic() - began_s), "tokens": tokens}))


def body(line: dict) -> dict:
    return {
        "messages": [{"role": "user", "content": line["prompt"]}],
        "max_tokens": line["output_tokens"],
        "ignore_eos": True,
        "temperature": 0,
    }


def ask_all(server, bodies: list[dict], streams: int) -> int:
    """In a closed loop; returns the tokens that came."""
    waiting, tokens = iter(bodies), []

    def work() -> None:
        for one in waiting:
            answer = server.handle_chat_completions(one)
            tokens.append(answer["usage"]["completion_tokens"])

    workers = [threading.Thread(target=work) for _ in range(streams)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if len(tokens) < len(bodies):
        raise SystemExit(f"{len(bodies) - len(tokens)} requests failed")
    return sum(tokens)


if __name__ == "__main__":
    main()
