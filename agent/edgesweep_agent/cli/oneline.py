"""How a program ends that cannot go on: one line for the operator, and an exit code."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from edgesweep_agent.errors import AgentError
from edgesweep_agent.outfile import drop

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End the process on what the operator can mend; anything else is a fault of ours.

    Raises:
        SystemExit: with the error's code.
    """
    try:
        yield
    except AgentError as error:
        _end(error)
    except BrokenPipeError:
        # Whoever read us has what it wanted.
        drop(sys.stdout)
        sys.exit(1)
    except OSError as error:
        _end(AgentError(f"{error.filename or 'output'}: {error.strerror}"))
    except BaseExceptionGroup as group:
        errors = [error for error in _leaves(group) if isinstance(error, AgentError)]
        if not errors:
            raise
        _end(errors[0])


def _end(error: AgentError) -> NoReturn:
    sys.stderr.write(f"edgesweep-agent: {error}\n")
    sys.exit(error.exit_code)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
