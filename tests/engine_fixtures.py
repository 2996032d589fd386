"""What engines answer, out of ``fixtures/engines``: one file a server, real or our own."""

from __future__ import annotations

import json
from pathlib import Path

from edgesweep_agent.core.answers import Reply

FOLDER = Path(__file__).parent / "fixtures/engines"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name):
    """The file: source, engine, model, answers, expected."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def replies(answers):
    """``{path: {status, headers, body}}`` as answers; a body that is no text becomes JSON."""
    return {path: reply(told) for path, told in answers.items()}


def reply(told):
    body = told["body"]
    text = body if isinstance(body, str) else json.dumps(body)
    return Reply(told["status"], told["headers"], text)


def answers_of(name):
    """The answers of one file."""
    return replies(load(name)["answers"])


def plain(**bodies):
    """Answers with status 200 and no headers."""
    return replies({p: {"status": 200, "headers": {}, "body": b} for p, b in bodies.items()})


def cases(name):
    """One file of ``fixtures/cases`` by id."""
    file = Path(__file__).parent / f"fixtures/cases/{name}.json"
    return {case["id"]: case for case in json.loads(file.read_text(encoding="utf-8"))}
