"""``guidellm run``: GuideLLM of the vLLM project, one concurrency of it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from bench_clients import Load, Timed

if TYPE_CHECKING:
    from pathlib import Path

_RESULT = "result.json"


class GuidellmRun:
    """Its report has the first and the last text of each request, and no gaps between."""

    worker = "guidellm"
    environment = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}  # noqa: RUF012 - read alone

    def __init__(self, python: Path, tokenizer: Path) -> None:
        self._program, self._tokenizer = python.parent / "guidellm", tokenizer

    def argv(self, load: Load, folder: Path) -> list[str]:
        options = {
            "--backend": f"kind=openai_http,target={load.url},model=mock",
            "--profile": f"kind=concurrent,streams={load.streams}",
            "--constraint": f"kind=max_requests,count={load.requests}",
            "--data": f"kind=synthetic_text,prompt_tokens=16,output_tokens={load.tokens}",
            "--tokenizer": f"kind=huggingface_auto,model={self._tokenizer}",
            "--output": f"kind=json,path={folder / _RESULT}",
        }
        words = [word for pair in options.items() for word in pair]
        return [str(self._program), "run", *words, "--disable-console"]

    def read(self, folder: Path) -> list[Timed]:
        wall_less_monotonic_s = time.time() - time.monotonic()
        report = json.loads((folder / _RESULT).read_text(encoding="utf-8"))
        (benchmark,) = report["benchmarks"]
        found = benchmark["requests"]["successful"]
        return [_timed(one, wall_less_monotonic_s) for one in found]


def _timed(one: dict, wall_less_monotonic_s: float) -> Timed:
    timings = one["info"]["timings"]
    first_s, last_s = timings["first_token_iteration"], timings["last_token_iteration"]
    start_s, tokens = timings["request_start"], one["output_metrics"]["text_tokens"]
    return Timed(
        key=one["output"],
        t_send_ns=round((start_s - wall_less_monotonic_s) * 1e9),
        ttfr_s=timings["first_request_iteration"] - start_s,
        ttft_s=first_s - start_s,
        gaps_s=[],
        tpot_s=(last_s - first_s) / (tokens - 1),
    )
