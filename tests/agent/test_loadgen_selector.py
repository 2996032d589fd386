from __future__ import annotations

import asyncio
import socket
import struct
import time
from selectors import EVENT_READ, EVENT_WRITE

import pytest

from edgesweep_agent.loadgen.selector import ReadingSelector


class Kept:
    """A direct reader that asks for a turn of the loop when told a full stop."""

    def __init__(self, shelf=None):
        self.read, self.errors, self.shelf = [], [], shelf

    def receive(self, t_ns, data):
        assert t_ns <= time.monotonic_ns()
        self.read.append(data)
        return data.endswith(b".")

    def broken(self, t_ns, error):
        self.errors.append(type(error))


@pytest.fixture
def pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def selector():
    made = ReadingSelector()
    yield made
    made.close()


def test_what_is_diverted_goes_to_the_reader_alone(selector, pair):
    ours, theirs = pair
    selector.register(ours.fileno(), EVENT_READ, "key")
    reader = Kept()
    selector.divert(ours.fileno(), reader)
    theirs.sendall(b"a.")
    assert selector.select(5) == []
    selector.restore(ours.fileno())
    theirs.sendall(b"b")
    ((key, events),) = selector.select(5)
    assert (key.data, events, reader.read, ours.recv(9)) == ("key", EVENT_READ, [b"a."], b"b")


def test_what_may_wait_is_shelved_with_its_instant_and_no_more(selector, pair):
    ours, theirs = pair
    selector.register(ours.fileno(), EVENT_READ, "key")
    reader = Kept(shelf=[])
    selector.divert(ours.fileno(), reader)
    before_ns = time.monotonic_ns()
    for part in (b"data: 1\n\n", b"end\r\n\r\n", b"..."):
        theirs.sendall(part)
        selector.select(0.2)
    ((t_ns, data),) = reader.shelf
    assert data == b"data: 1\n\n"
    assert before_ns <= t_ns <= time.monotonic_ns()
    assert reader.read == [b"end\r\n\r\n", b"..."]


def test_a_full_shelf_is_told(selector, pair):
    ours, theirs = pair
    selector.register(ours.fileno(), EVENT_READ, "key")
    reader = Kept(shelf=[(0, b"kept")] * 128)
    selector.divert(ours.fileno(), reader)
    theirs.sendall(b"data: 1.")
    selector.select(5)
    assert (len(reader.shelf), reader.read) == (128, [b"data: 1."])


def test_the_loop_does_not_turn_for_a_read_that_needs_nothing(selector, pair):
    ours, theirs = pair
    selector.register(ours.fileno(), EVENT_READ)
    reader = Kept()
    selector.divert(ours.fileno(), reader)
    theirs.sendall(b"token")
    begun = time.monotonic()
    assert selector.select(0.05) == []
    assert reader.read == [b"token"]
    assert time.monotonic() - begun >= 0.05


def test_the_end_of_the_stream_is_left_to_the_transport(selector, pair):
    ours, theirs = pair
    selector.register(ours.fileno(), EVENT_READ, "key")
    reader = Kept()
    selector.divert(ours.fileno(), reader)
    theirs.sendall(b"last")
    theirs.close()
    ((key, events),) = selector.select(5)
    assert (key.data, events & EVENT_READ, reader.read) == ("key", EVENT_READ, [b"last"])
    assert ours.recv(9) == b""


def test_a_reset_is_told_to_the_reader(selector, pair):
    ours, theirs = pair
    selector.register(ours.fileno(), EVENT_READ, "key")
    reader = Kept()
    selector.divert(ours.fileno(), reader)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()
    ((key, _),) = selector.select(5)
    assert (key.data, reader.errors) == ("key", [ConnectionResetError])


def test_a_transport_that_still_writes_is_told_so(selector, pair):
    ours, theirs = pair
    selector.register(ours.fileno(), EVENT_READ, "key")
    selector.modify(ours.fileno(), EVENT_READ | EVENT_WRITE, "both")
    reader = Kept()
    selector.divert(ours.fileno(), reader)
    theirs.sendall(b"a")
    time.sleep(0.01)
    ((key, events),) = selector.select(5)
    assert (key.data, events, reader.read) == ("both", EVENT_WRITE, [b"a"])


def test_registrations_are_those_of_any_selector(selector, pair):
    ours, _ = pair
    key = selector.register(ours, EVENT_READ, "a")
    with pytest.raises(KeyError):
        selector.register(ours, EVENT_READ)
    assert selector.get_map()[ours.fileno()] == key
    assert selector.select(0) == []
    ours.close()
    assert selector.unregister(key.fd) == key
    with pytest.raises(KeyError):
        selector.unregister(key.fd)


def test_timers_are_exact_when_asked():
    async def lateness_s(times):
        loop, late = asyncio.get_running_loop(), []
        for _ in range(times):
            due = loop.time() + 0.0105
            await asyncio.sleep(0.0105)
            late.append(loop.time() - due)
        return sorted(late)

    selector = ReadingSelector()
    selector.exact_timers = True
    loop = asyncio.SelectorEventLoop(selector)
    late = loop.run_until_complete(lateness_s(20))
    loop.close()
    assert late[0] >= 0
    # A busy neighbour may spoil some; rounding up to milliseconds would spoil them all.
    assert late[3] < 0.0005
