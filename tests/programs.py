"""A program's command line in this process, ended as ``main`` ends it: one line and a code."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """What came of a command."""

    exit_code: int
    stdout_bytes: bytes
    stderr: str

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode()

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def invoke(run, words, env=None) -> Done:
    """Run ``PROGRAM.run`` with these words; what it raises and nobody catches is raised."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    before = os.environ.copy()
    os.environ.update(env or {})
    try:
        with redirect_stdout(out), redirect_stderr(err):
            run([str(word) for word in words])
    except SystemExit as error:
        code = error.code or 0
    else:
        code = 0
    finally:
        os.environ.clear()
        os.environ.update(before)
    out.flush()
    err.flush()
    return Done(code, out.buffer.getvalue(), err.buffer.getvalue().decode())
