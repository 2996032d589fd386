"""Other people's clients, by the names that ``--peer NAME=PYTHON`` takes."""

from __future__ import annotations

from .aiperf_profile import AiperfProfile
from .guidellm_run import GuidellmRun
from .vllm_bench import VllmBench

PEERS = {"vllm": VllmBench, "aiperf": AiperfProfile, "guidellm": GuidellmRun}
