"""The commands of the program, and the end of the help of each."""

from __future__ import annotations

from edgesweep_common.commands import Program

from . import COMMANDS

# Click keeps the lines of a block that begins with \b as they are.
_EXAMPLES = {
    "": """\b
Examples:
  edgesweep-collector serve --config /etc/edgesweep/collector.toml
  edgesweep-collector compare --config collector.toml
  edgesweep-collector crossover problem.json""",
    "serve": """\b
Example:
  edgesweep-collector serve --config collector.toml""",
    "devices": """\b
Examples:
  edgesweep-collector devices --config collector.toml
  edgesweep-collector devices --config collector.toml --json
  edgesweep-collector devices --config collector.toml --gaps""",
    "runs": """\b
Examples:
  edgesweep-collector runs --config collector.toml
  edgesweep-collector runs --config collector.toml 01a22dcb --json""",
    "compare": """\b
Examples:
  edgesweep-collector compare --config collector.toml
  edgesweep-collector compare --config collector.toml --run ID1 --run ID2 \\
      --contenders llama.cpp vLLM --metric ttft_s --json""",
    "report": """\b
Example:
  edgesweep-collector report --config collector.toml --out report.html""",
    "replay": """\b
Examples:
  edgesweep-collector replay --config collector.toml --since all --dry-run
  edgesweep-collector replay --config collector.toml --since 36h --projection influx_telemetry""",
    "ingest": """\b
Example:
  edgesweep-collector ingest press-07.envelopes --config collector.toml""",
    "mosquitto": """\b
Example:
  edgesweep-collector mosquitto --out broker --ca /etc/mosquitto/tls/ca.crt \\
      --cert /etc/mosquitto/tls/broker.crt --key /etc/mosquitto/tls/broker.key \\
      --collector collector.1 --collector collector.2""",
    "simulate": """\b
Examples:
  edgesweep-collector simulate --config collector.toml --devices 200 --duration 20m
  edgesweep-collector simulate --to 127.0.0.1:7443 --transport grpc --runs 1 --speed 0 --json
docs/simulate.md says what is planted.""",
    "crossover": """\b
Examples:
  edgesweep-collector crossover problem.json
  edgesweep-collector crossover problem.json --json
The file's format is in docs/crossover.md.""",
}

PROGRAM = Program(
    name="edgesweep-collector",
    help="Archive what the fleet measured, and say which engine to use where.",
    package=__package__,
    commands=COMMANDS,
    examples=_EXAMPLES,
)
