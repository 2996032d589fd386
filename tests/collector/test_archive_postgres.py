"""PostgreSQL as the archive: a server that goes away, several collectors, and its password."""

from __future__ import annotations

import re
import threading
import time

import pytest

import wire
from edgesweep.records import Event, Telemetry
from edgesweep_collector.archive import engine
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.archive.rows import Kept
from edgesweep_collector.cli.commands import PROGRAM
from edgesweep_collector.errors import ArchiveUnavailable, ArchiveUnusable, SettingsError
from postgres import PASSWORD, needs_postgres, running_postgres
from programs import invoke

pytestmark = needs_postgres
STORED = Kept.STORED


def came(seq, **fields):
    return wire.received(Event("a", "b"), seq, **fields)


@pytest.fixture
def database(postgres):
    return postgres.new_database()


@pytest.fixture
def archive(postgres, database):
    opened = Archive.open(postgres.url(database))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def own():
    """A server that may be stopped without harm to others."""
    with running_postgres() as server:
        yield server


def test_a_connection_that_is_cut_in_mid_transaction_stores_nothing_and_the_next_one_works(
    archive, postgres, database
):
    def cut():
        with archive._write() as connection:
            connection.exec_driver_sql("UPDATE sequences SET last = 99")
            (pid,) = connection.exec_driver_sql("SELECT pg_backend_pid()").scalars()
            postgres.execute(f"SELECT pg_terminate_backend({pid})", database)
            time.sleep(0.05)
            connection.exec_driver_sql("SELECT 1")

    with pytest.raises(ArchiveUnavailable, match="does not write"):
        cut()
    assert archive.append([came(1)]) == [STORED]
    assert archive.counts_by_kind() == {"event": 1}


def test_a_server_that_restarts_is_found_again(own):
    archive = Archive.open(own.url(own.new_database()))
    assert archive.append([came(1)]) == [STORED]
    own.stop("immediate")
    for refused in (lambda: archive.append([came(2)]), archive.devices):
        with pytest.raises(ArchiveUnavailable) as raised:
            refused()
        assert "\n" not in str(raised.value)
    own.start()
    # The pool's connections are dead, which the first transaction does not notice.
    assert archive.append([came(1), came(2)]) == [Kept.DUPLICATE, STORED]
    assert archive.devices()[0].device_id == "n97-01"
    archive.close()


def test_what_was_stored_survives_a_server_that_is_killed(own):
    database = own.new_database()
    archive = Archive.open(own.url(database))
    stored = []
    for seq in range(1, 15):
        archive.append([came(seq)])
        stored.append(seq)
    own.stop("immediate")
    archive.close()
    own.start()
    archive = Archive.open(own.url(database))
    assert archive.append([came(seq) for seq in stored]) == [Kept.DUPLICATE] * len(stored)
    archive.close()


def test_a_server_whose_commits_may_be_lost_is_told_to_keep_ours(postgres, database):
    postgres.execute(f'ALTER DATABASE "{database}" SET synchronous_commit = off')
    archive = Archive.open(postgres.url(database))
    with archive._write() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    archive.close()


def test_a_collector_that_is_stopped_in_mid_transaction_does_not_stop_the_others(
    archive, postgres, database, monkeypatch
):
    shorter = [text.replace("'60s'", "'300ms'") for text in engine._ON_POSTGRESQL]
    monkeypatch.setattr(engine, "_ON_POSTGRESQL", shorter)
    stopped = Archive.open(postgres.url(database))

    def hold():
        with stopped._write() as connection:
            # As long as it holds the lock nobody else writes.
            began = time.monotonic()
            assert archive.append([came(1)]) == [STORED]
            assert time.monotonic() - began > 0.2
            connection.exec_driver_sql("SELECT 1")

    with pytest.raises(ArchiveUnavailable):
        hold()
    stopped.close()


def test_two_collectors_store_each_record_once_and_their_order_has_no_holes_behind(
    postgres, database
):
    """Whatever a reader has seen, nothing below it appears later."""
    archives = [Archive.open(postgres.url(database)) for _ in range(3)]
    reader = Archive.open(postgres.url(database))
    kept, seen, done = [], [], threading.Event()

    def write(archive, offset):
        for start in range(0, 60, 5):
            group = [wire.received(Telemetry(()), 1 + (start + offset) % 60 + n) for n in range(5)]
            kept.extend(archive.append(group))

    def read():
        while not done.is_set() or reader.telemetry_after(max(seen, default=0), 1):
            seen.extend(row.row_id for row in reader.telemetry_after(max(seen, default=0), 7))

    threads = [threading.Thread(target=write, args=(a, 20 * n)) for n, a in enumerate(archives)]
    follower = threading.Thread(target=read)
    follower.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    follower.join()
    total = len(reader.telemetry_after(0, 999))
    assert kept.count(STORED) == total == len(seen) == len(set(seen))
    assert kept.count(Kept.CONFLICT) == 0
    for archive in (*archives, reader):
        archive.close()


def test_two_that_open_an_empty_database_at_once_make_its_tables_once(postgres, database):
    opened, problems = [], []

    def make():
        try:
            opened.append(Archive.open(postgres.url(database)))
        except ArchiveUnusable as error:
            problems.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(opened), problems) == (4, [])
    for archive in opened:
        archive.close()


def test_the_password_comes_from_its_file(postgres, database, tmp_path):
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    archive = Archive.open(postgres.tcp_url(database), password_file=str(secret))
    assert archive.append([came(1)]) == [STORED]
    assert PASSWORD not in repr(archive._engine)
    archive.close()


def test_without_it_libpq_looks_in_its_own_file(postgres, database, tmp_path, monkeypatch):
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"127.0.0.1:{postgres.port}:*:edgesweep:{PASSWORD}\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    Archive.open(postgres.tcp_url(database)).close()


def test_a_password_is_never_shown(postgres, database, tmp_path):
    secret = tmp_path / "password"
    secret.write_text("CANARY-wrong")
    config = tmp_path / "collector.toml"
    url = postgres.tcp_url(database)
    for line, code in (
        (f'url = "{url}"\npassword_file = "{secret}"', 1),
        (f'url = "{url}"\npassword_file = "/nowhere"', 78),
        (f'url = "{url.replace("edgesweep@", "edgesweep:CANARY-url@")}"', 78),
        (f'url = "{url}?password=CANARY-url"', 78),
        (f'url = "sqlite:///{tmp_path}/a.db"\npassword_file = "{secret}"', 78),
        (f'url = "{url.replace("127.0.0.1", "host.invalid")}"\npassword_file = "{secret}"', 1),
    ):
        config.write_text(f"[archive]\n{line}\n")
        command = ["devices", "--config", str(config)]
        done = invoke(PROGRAM.run, command)
        assert (done.exit_code, done.stdout) == (code, ""), done.stderr
        assert re.fullmatch(r"edgesweep-collector: .*archive.*\n", done.stderr)
        assert "CANARY" not in done.stderr


@pytest.mark.parametrize("name", ["postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_the_driver_is_ours_whatever_the_url_says(postgres, database, name):
    archive = Archive.open(postgres.url(database).replace("postgresql", name))
    assert archive._engine.dialect.driver == "psycopg"
    archive.close()


def test_a_database_that_does_not_take_any_text_is_refused(postgres):
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(ArchiveUnusable, match="encoded as LATIN1: createdb"):
        Archive.open(postgres.url("latin"))


def test_a_database_that_is_not_there_is_a_line(postgres):
    with pytest.raises(ArchiveUnusable, match="cannot open the archive"):
        Archive.open(postgres.url("absent"))
    with pytest.raises(SettingsError, match="archive"):
        Archive.open("postgresql://u@host:nan/x")


def test_what_the_database_refuses_of_one_record_is_kept_as_it_came(archive):
    """PostgreSQL takes no NUL in a text."""
    nul = Event("name", "a\0b", {"k": "\0"})
    level = wire.level(1, run_id="run\0")
    batch = [wire.received(nul, 1), wire.received(level, 2), came(3)]
    assert archive.append(batch) == [STORED] * 3
    with archive._read() as connection:
        rows = connection.exec_driver_sql("SELECT decoded, error FROM envelopes ORDER BY seq").all()
    assert [row[0] for row in rows] == [False, False, True]
    assert all(row[1] for row in rows[:2])
