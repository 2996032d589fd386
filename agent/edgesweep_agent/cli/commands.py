"""The commands of the program, and the end of the help of each."""

from __future__ import annotations

from edgesweep_common.commands import Program

from . import COMMANDS

# Click keeps the lines of a block that begins with \b as they are.
_EXAMPLES = {
    "": """\b
Examples:
  edgesweep-agent sweep --url http://127.0.0.1:8080
  edgesweep-agent sweep --plan plan.toml --json run.json --samples samples.jsonl
  edgesweep-agent serve --config agent.toml""",
    "sweep": """\b
Examples:
  edgesweep-agent sweep --url http://127.0.0.1:8080
  edgesweep-agent sweep --url http://127.0.0.1:8000 --model NAME --levels 1,2,4,8 \\
      --workload chat-512-128 --budget 1h --json run.json
  edgesweep-agent sweep --plan plan.toml --submit --config agent.toml
  edgesweep-agent sweep --plan plan.toml --dry-run""",
    "probe": """\b
Examples:
  edgesweep-agent probe http://127.0.0.1:8080
  edgesweep-agent probe http://127.0.0.1:8000 --json""",
    "inspect": """\b
Examples:
  edgesweep-agent inspect
  edgesweep-agent inspect --json""",
    "fit": """\b
Examples:
  edgesweep-agent fit model.gguf --context 4096 --reserve 2GiB
  edgesweep-agent fit model.gguf --class 8g --levels 1,4,16 --json""",
    "meter": """\b
Examples:
  edgesweep-agent meter wall.csv --run run.json --json run-wall.json
  edgesweep-agent meter wall.csv --run run.json --edge first""",
    "serve": """\b
Example:
  edgesweep-agent serve --config /etc/edgesweep/agent.toml""",
    "csr": """\b
Examples:
  edgesweep-agent csr --config /etc/edgesweep/agent.toml --out press-07.csr
  edgesweep-agent csr --config /etc/edgesweep/agent.toml --install press-07.crt
  edgesweep-agent csr --config /etc/edgesweep/agent.toml --check""",
}

PROGRAM = Program(
    name="edgesweep-agent",
    help="Sweep the local inference engine over concurrency, and deliver what was measured.",
    package=__package__,
    commands=COMMANDS,
    examples=_EXAMPLES,
)
