from __future__ import annotations

import pytest

from edgesweep import topics
from edgesweep.records import Kind


@pytest.mark.parametrize("name", ["a", "orin-07", "0", "a" * 63])
def test_device_ids(name):
    assert topics.is_device_id(name)
    assert topics.parse_up(topics.up(name, Kind.LEVEL)) == (name, "level")


@pytest.mark.parametrize("name", ["", "A", "a_b", "a/b", "+", "#", "a" * 64, "a\n", "ä"])
def test_what_is_no_device_id(name):
    assert not topics.is_device_id(name)
    assert topics.parse_up(f"edgesweep/v1/{name}/up/level") is None


@pytest.mark.parametrize("topic", ["edgesweep/v1/a/down/ack", "edgesweep/v2/a/up/level", ""])
def test_other_topics_are_not_ours(topic):
    assert topics.parse_up(topic) is None
