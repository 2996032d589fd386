"""The one reader: what a kernel can answer, and what comes of it."""

from __future__ import annotations

import errno
import os

import pytest

from edgesweep_agent.sensors.base import State
from edgesweep_agent.sensors.files import ASIDE_S, SLOW_S, Files, Missing, fetch


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Scripted:
    """A kernel that answers every read with the next of a list, each taking its time."""

    def __init__(self, clock, *answers) -> None:
        self.clock = clock
        self.answers = list(answers)
        self.reads = 0

    def __call__(self, _path, _limit) -> bytes:
        self.reads += 1
        answer, took_s = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.clock.now += took_s
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer


def scripted(*answers):
    clock = Clock()
    kernel = Scripted(clock, *answers)
    return Files(fetch=kernel, clock=clock), kernel, clock


def test_a_text_loses_white_space_and_nul_bytes_around_it(tmp_path):
    (tmp_path / "model").write_bytes(b"NVIDIA Jetson\0\n\0")
    assert Files(tmp_path).read("model") == "NVIDIA Jetson"


def test_eagain_is_a_part_that_is_switched_off_and_no_type_error(tmp_path):
    # An empty FIFO with a writer answers EAGAIN as a gated thermal zone does.
    os.mkfifo(tmp_path / "temp")
    writer = os.open(tmp_path / "temp", os.O_RDWR | os.O_NONBLOCK)
    try:
        # TypeError up to Python 3.13.
        reader = os.open(tmp_path / "temp", os.O_NONBLOCK)
        with os.fdopen(reader) as trap, pytest.raises((TypeError, BlockingIOError)):
            trap.read()
        found = Files(tmp_path).read("temp")
    finally:
        os.close(writer)
    assert found == Missing(State.ABSENT, "/temp: switched off just now (EAGAIN)")


def test_a_fifo_without_a_writer_does_not_hold_the_agent_up(tmp_path):
    os.mkfifo(tmp_path / "temp")
    assert isinstance(Files(tmp_path).number("temp"), Missing)


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (errno.ENOENT, State.ABSENT),
        (errno.ENODEV, State.ABSENT),
        (errno.EAGAIN, State.ABSENT),
        (errno.ENODATA, State.ABSENT),
        (errno.EOPNOTSUPP, State.ABSENT),
        (errno.ESRCH, State.ABSENT),
        (errno.EACCES, State.FAILED),
        (errno.EPERM, State.FAILED),
        (errno.EINVAL, State.FAILED),
        (errno.EBUSY, State.FAILED),
        (errno.EIO, State.FAILED),
        (errno.ETIMEDOUT, State.FAILED),
    ],
)
def test_every_error_is_a_value_with_its_path_and_code(code, state):
    files, _, _ = scripted((code, 0))
    found = files.number("sys/x")
    assert found.state is state
    assert "/sys/x" in found.reason
    assert errno.errorcode[code] in found.reason


@pytest.mark.parametrize("text", ["", "n/a", "12 34", "0x12"])
def test_what_is_no_number_is_failed_and_never_0(tmp_path, text):
    (tmp_path / "temp").write_text(text)
    assert Files(tmp_path).number("temp").state is State.FAILED


def test_a_folder_or_a_huge_file_ends_nothing(tmp_path):
    (tmp_path / "big").write_bytes(b"x" * 1000)
    assert Files(tmp_path).read("").state is State.FAILED
    assert fetch(tmp_path / "big", 10) == b"x" * 10


@pytest.mark.parametrize("bad", [(errno.EIO, 0.0), (b"1", SLOW_S * 2)])
def test_a_path_is_left_alone_for_a_minute_after_two_bad_reads(bad):
    files, kernel, clock = scripted(bad)
    for _ in range(5):
        found = files.read("x")
    assert kernel.reads == 2
    assert "left alone" in found.reason
    clock.now += ASIDE_S
    files.read("x")
    assert kernel.reads == 3


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENODATA, errno.ENOENT, errno.EACCES])
def test_a_quick_refusal_never_puts_a_path_aside(code):
    # A GPU that was switched off when the sweep began must be seen when it works.
    files, _, _ = scripted((code, 0), (code, 0), (code, 0), (b"61906", 0))
    assert [files.integer("x") for _ in range(4)] == [None, None, None, 61906]


def test_a_good_read_between_two_bad_ones_forgives():
    files, kernel, _ = scripted((errno.EIO, 0), (b"1", 0), (errno.EIO, 0), (b"1", 0))
    for _ in range(4):
        files.read("x")
    assert kernel.reads == 4


def test_names_come_in_the_order_of_their_numbers(tmp_path):
    for name in ("zone10", "zone2", "other"):
        (tmp_path / name).touch()
    assert Files(tmp_path).names("", r"zone\d+") == ["/zone2", "/zone10"]
    assert Files(tmp_path).names("nowhere") == []
