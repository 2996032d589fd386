from __future__ import annotations

from edgesweep import envelope, events
from edgesweep.records import ClockQuality, Kind
from edgesweep_agent.core.clock import Look
from edgesweep_agent.sealing import Sealer

S = 10**9
NTP_S = 1_767_225_600


class Clocks:
    """Clocks that a test moves; the wall shows 2 s after 1970 at the start."""

    def __init__(self):
        self.mono_s, self.wall_s, self.synced = 10, 12, False

    def __call__(self):
        return Look(self.wall_s * S, self.mono_s * S, self.synced)


def test_an_envelope_has_the_times_at_which_its_record_was_made():
    clocks = Clocks()
    sealer = Sealer("d1", "1.0", boot_id="b", read=clocks)
    early = sealer.seal(Kind.EVENT, b"early")
    clocks.mono_s, clocks.wall_s, clocks.synced = 45, NTP_S, True
    assert events.clock_offset_ns(sealer.watch_clock()) == (NTP_S - 45) * S
    late = sealer.seal(Kind.EVENT, b"late")
    one, other = envelope.decode(early(7, 1)), envelope.decode(late(7, 2))
    assert (one.wall_ns, one.mono_ns, one.clock) == (12 * S, 10 * S, ClockQuality.UNSYNCED)
    assert (other.wall_ns, other.clock) == (NTP_S * S, ClockQuality.SYNCED)
    assert (other.device_id, other.epoch, other.seq, other.boot_id) == ("d1", 7, 2, "b")


def test_the_trouble_with_a_clock_is_told_until_it_is_mended():
    clocks = Clocks()
    sealer = Sealer("d1", "1.0", boot_id="b", read=clocks)
    assert "never set" in sealer.trouble()
    assert sealer.trusted_wall_ns() is None
    clocks.wall_s = NTP_S
    assert sealer.trouble() == "nothing synchronises it"
    clocks.synced = True
    sealer.watch_clock()
    assert sealer.trouble() == ""
    assert sealer.trusted_wall_ns() == NTP_S * S
    clocks.synced = False
    assert sealer.trouble() == ""  # it runs on by itself for a while
