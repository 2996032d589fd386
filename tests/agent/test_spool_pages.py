"""SQLite's file formats read without SQLite, held against what SQLite says."""

from __future__ import annotations

import random
import sqlite3

import pytest

from edgesweep_agent.core import pages, wal

DICE = random.Random(7)
ROWS = [
    (1, None, 0, 1.5, "text", b""),
    (2**62, 1, 255, -1.5, "ümläut", b"x" * 5),
    (-5, -1, 2**40, 0.0, "", DICE.randbytes(400)),
    *((n, n, -n, n / 7, "t" * (n % 300), DICE.randbytes(n * 37 % 9000)) for n in range(100, 220)),
]


def database(path, page_bytes=512, *, checkpointed=True):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA page_size={page_bytes}")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute("PRAGMA secure_delete=OFF")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c, d, e)")
    for row in ROWS:
        connection.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", row)
    if checkpointed:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return connection


def reader(path, page_bytes):
    data = path.read_bytes()

    def page(number):
        return data[(number - 1) * page_bytes : number * page_bytes] or None

    return page, len(data) // page_bytes


def rows_in(path, page_bytes):
    page, count = reader(path, page_bytes)
    free = pages.free_pages(page)
    return [
        (rowid, *columns[1:])
        for number in range(1, count + 1)
        if number not in free
        for rowid, columns in pages.rows_of(page(number), number, page)
        if len(columns) == 6
    ]


@pytest.mark.parametrize("page_bytes", [512, 1024, 4096, 65536])
def test_the_rows_of_a_database(tmp_path, page_bytes):
    path = tmp_path / "a.db"
    connection = database(path, page_bytes)
    assert pages.page_bytes_of(path.read_bytes()[:100]) == page_bytes
    assert sorted(rows_in(path, page_bytes)) == sorted(ROWS)
    connection.execute("DELETE FROM t WHERE id % 3 = 0")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert sorted(rows_in(path, page_bytes)) == sorted(row for row in ROWS if row[0] % 3)
    connection.close()


def test_rows_of_pages_that_are_not_in_use_any_more_are_not_read(tmp_path):
    path = tmp_path / "a.db"
    connection = database(path)
    connection.execute("DELETE FROM t")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    page, _ = reader(path, 512)
    assert len(pages.free_pages(page)) > 1000
    assert rows_in(path, 512) == []
    connection.close()


@pytest.mark.parametrize("seed", range(30))
def test_garbage_is_no_row_and_no_exception(tmp_path, seed):
    path, dice = tmp_path / "a.db", random.Random(seed)
    database(path).close()
    data = bytearray(path.read_bytes())
    for _ in range(2000):
        data[dice.randrange(len(data))] = dice.randrange(256)
    path.write_bytes(data)
    found = rows_in(path, 512)
    assert len(found) < 2 * len(ROWS)


@pytest.mark.parametrize(
    ("header", "size"),
    [
        (b"SQLite format 3\0\x02\x00", 512),
        (b"SQLite format 3\0\x00\x01", 65536),
        (b"SQLite format 3\0\x02\x01", None),
        (b"SQLite format 3\0\x00\x80", None),
        (b"sqlite format 3\0\x02\x00", None),
        (b"", None),
    ],
)
def test_the_size_of_pages(header, size):
    assert pages.page_bytes_of(header.ljust(100, b"\0") if header else b"") == size


@pytest.fixture
def log(tmp_path):
    connection = database(tmp_path / "a.db", checkpointed=False)
    data = (tmp_path / "a.db-wal").read_bytes()
    connection.close()
    return data


def test_a_whole_log(log):
    found = wal.parsed(log, 512)
    assert (found.page_bytes, found.tail, found.damaged) == (512, (), False)
    assert max(found.committed.values()) + 512 == len(log)
    assert wal.parsed(b"", 512) is None
    assert wal.parsed(log[:32], 512) is None


def test_a_log_that_has_begun_anew_has_old_frames_behind_it(tmp_path):
    connection = database(tmp_path / "a.db", checkpointed=False)
    connection.execute("PRAGMA wal_checkpoint(RESTART)")
    connection.execute("UPDATE t SET a = 9 WHERE id = 1")
    found = wal.parsed((tmp_path / "a.db-wal").read_bytes(), 512)
    assert 0 < len(found.committed) < 4
    assert (found.tail, found.damaged) == ((), False)
    connection.close()


def test_a_transaction_that_had_not_ended_is_none_of_a_damaged_log(tmp_path):
    connection = database(tmp_path / "a.db", checkpointed=False)
    connection.execute("PRAGMA cache_size=5")
    whole = (tmp_path / "a.db-wal").read_bytes()
    connection.execute("BEGIN")
    connection.execute("UPDATE t SET e = zeroblob(9000)")
    spilled = (tmp_path / "a.db-wal").read_bytes()
    connection.execute("ROLLBACK")
    found = wal.parsed(spilled, 512)
    assert len(spilled) > len(whole) + 100_000
    assert found.committed == wal.parsed(whole, 512).committed
    assert not found.damaged
    assert len(found.tail) > 20
    connection.close()


@pytest.mark.parametrize("cut", [1, 100, 535, 536, 537, 5000])
def test_a_log_that_ends_in_a_frame_is_as_a_crash_leaves_it(log, cut):
    found = wal.parsed(log[:-cut], 512)
    assert not found.damaged or found.tail


@pytest.mark.parametrize("seed", range(60))
def test_a_flipped_bit_is_seen_unless_nothing_is_behind_it(log, seed):
    dice, data = random.Random(seed), bytearray(log)
    at = dice.randrange(len(data))
    data[at] ^= 1 << dice.randrange(8)
    found = wal.parsed(bytes(data), 512)
    assert found.damaged
    frame = max(0, at - 32) // 536
    ends = wal.parsed(log, 512)
    before = {page for page, place in ends.committed.items() if place < 32 + frame * 536}
    assert set(found.committed) <= before | set(ends.committed)
    assert found.tail


def test_a_log_without_its_header_is_told_by_its_first_frame(log):
    found = wal.parsed(bytes(32) + log[32:], 512)
    assert (found.committed, found.damaged) == ({}, True)
    assert len(found.tail) == (len(log) - 32) // 536
