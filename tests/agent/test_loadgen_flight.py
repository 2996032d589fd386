"""A flight reads what a server wrote, however the network cut it."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesweep_agent.loadgen.flight import Flight, Place, whole_chunk

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
BODIES = st.lists(
    st.sampled_from([b"a", b"\r\n", b"data: x\n\n", b"5\r\nab", b"x" * 300]), max_size=6
)
SIZES = st.sampled_from([b"%x", b"%X", b"0%x", b"%x;a=b"])


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"1\r\na\r\n", b"a"),
        (b"1e\r\n" + b"x" * 30 + b"\r\n", b"x" * 30),
        (b"2\r\n\r\n\r\n", b"\r\n"),
        (b"1E\r\n" + b"x" * 30 + b"\r\n", b""),
        (b"01\r\na\r\n", b""),
        (b"0x1\r\na\r\n", b""),
        (b"1;a\r\na\r\n", b""),
        (b"1\r\na\r\n1\r\nb\r\n", b""),
        (b"2\r\na\r\n", b""),
        (b"1\r\na\r", b""),
        (b"0\r\n\r\n", b""),
        (b"\r\n", b""),
        (b"1", b""),
        (b"", b""),
    ],
)
def test_a_read_that_is_one_chunk(data, body):
    assert whole_chunk(data) == body


@given(st.lists(st.tuples(BODIES.map(b"".join).filter(bool), SIZES), max_size=8), st.data())
def test_chunks_come_out_whole_wherever_they_were_cut(chunks, data):
    written = [HEAD]
    written += [form % len(body) + b"\r\n" + body + b"\r\n" for body, form in chunks]
    written.append(b"0\r\n\r\n")
    whole = b"".join(written)
    # Mostly at the ends of what was written, as a server's writes arrive.
    ends = [sum(map(len, written[:n])) for n in range(1, len(written))]
    cut = st.one_of(st.sampled_from(ends), st.integers(0, len(whole)))
    at = [0, *sorted(data.draw(st.sets(cut))), len(whole)]
    exchange = asyncio.run(flown([whole[a:b] for a, b in pairwise(at)]))
    assert (exchange.status, exchange.ending) == (200, "complete")
    assert b"".join(piece for _, piece in exchange.pieces) == b"".join(b for b, _ in chunks)
    reads = dict(enumerate(pairwise(at)))
    for t_ns, piece in exchange.pieces:
        start, end = reads[t_ns]
        assert piece in whole[start:end]


async def flown(reads):
    flight = Flight(Place(0), 0)
    flight.sending(0)
    for t_ns, read in enumerate(reads):
        if read:
            flight.receive(t_ns, read)
            await asyncio.sleep(0)
    return flight.exchange()
