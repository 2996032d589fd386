"""How a program ends that cannot go on: one line for the operator, and an exit code."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from .errors import ProgramError
from .outfile import drop
from .texts import printable

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def one_line_errors(program: str) -> Iterator[None]:
    """End the process on what the operator can mend; anything else is a fault of ours.

    Raises:
        SystemExit: with the error's code.
    """
    try:
        yield
    except ProgramError as error:
        _end(program, error)
    except BrokenPipeError:
        # Whoever read us has what it wanted.
        drop(sys.stdout)
        sys.exit(1)
    except OSError as error:
        _end(program, ProgramError(f"{error.filename or 'output'}: {error.strerror}"))
    except BaseExceptionGroup as group:
        errors = [error for error in _leaves(group) if isinstance(error, ProgramError)]
        if not errors:
            raise
        _end(program, errors[0])


def _end(program: str, error: ProgramError) -> NoReturn:
    # It may name what a device or a server said, which a terminal could take for a command.
    sys.stderr.write(f"{program}: {printable(str(error))}\n")
    sys.exit(error.exit_code)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
