from __future__ import annotations

import io

import pytest

from edgesweep import carried
from edgesweep.carried import Carried
from edgesweep.envelope import WireError

SOME = (
    Carried(b"one"),
    Carried(b"two" * 1000, 5, "mqtt", 7, "device"),
    Carried(b""),
)


def file_of(*some):
    file = io.BytesIO()
    assert carried.write(file, some) == len(some)
    return file.getvalue()


def until_damage(data):
    found = []
    try:
        found.extend(carried.read(io.BytesIO(data)))
    except WireError as error:
        return found, str(error)
    return found, ""


def test_what_is_written_is_read():
    assert until_damage(file_of(*SOME)) == ([*SOME], "")
    assert until_damage(file_of()) == ([], "")


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_file_that_was_cut_short_is_good_up_to_its_last_whole_record(cut):
    data = file_of(*SOME)
    found, problem = until_damage(data[:-cut])
    assert found == [*SOME][: len(found)]
    assert problem or found == [*SOME][: len(found)]
    assert len(found) < len(SOME)


def test_a_flipped_bit_is_found_and_what_came_before_is_good():
    data = bytearray(file_of(*SOME))
    data[-30 - 3000] ^= 1
    found, problem = until_damage(bytes(data))
    assert found == [SOME[0]]
    assert "damaged at record 2" in problem


def test_a_length_out_of_all_bounds_is_not_read():
    data = carried.HEAD + b"\xff\xff\xff\x7f" + bytes(4)
    assert "too many" in until_damage(data)[1]


def test_another_file_is_named():
    assert "does not begin with edgesweep.envelopes/1" in until_damage(b"SQLite format 3\0")[1]
