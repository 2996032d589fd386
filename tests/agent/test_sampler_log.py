"""What the log says of a sensor that fails."""

from __future__ import annotations

import logging
import time

from edgesweep_agent.sensors.sampler import Pace, Sampler


class Broken:
    """A sensor that raises, against its promise."""

    name = "fan"
    fast = False

    def read(self):
        raise RuntimeError("no such bus")


def test_a_sensor_that_is_taken_out_is_named_with_the_reason(caplog):
    pace = Pace(fast_s=0.01, all_s=0.05, block_s=0.1, retry_s=60)
    with caplog.at_level(logging.WARNING), Sampler([Broken()], pace=pace):
        deadline = time.monotonic() + 5
        while not caplog.messages:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    assert caplog.messages == ["sensor fan is taken out: RuntimeError: no such bus"]
