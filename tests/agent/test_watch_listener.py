from __future__ import annotations

import pytest

from edgesweep_agent.sensors.files import Files
from edgesweep_agent.watch.listener import attached, listeners, together

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
LOOPBACK, ANY, LAN = "0100007F", "00000000", "0A01A8C0"
ANY6, MAPPED = "0" * 32, "0000000000000000FFFF00000100007F"


def line(address, port=8080, state="0A", inode=77):
    return f"   0: {address}:{port:04X} 00000000:0000 {state} 0:0 00:0 0  1000  0 {inode} 1 0\n"


@pytest.fixture
def box(tmp_path):
    def make(*lines, table="tcp", inode=77, name="llama-server", pid=50):
        (tmp_path / "proc/net").mkdir(parents=True)
        (tmp_path / f"proc/net/{table}").write_text(HEAD + "".join(lines))
        fds = tmp_path / f"proc/{pid}/fd"
        fds.mkdir(parents=True)
        (fds.parent / "comm").write_text(name + "\n")
        (fds / "0").symlink_to("/dev/null")
        (fds / "3").symlink_to(f"socket:[{inode}]")
        return Files(tmp_path)

    return make


@pytest.mark.parametrize(
    ("lines", "table", "seen"),
    [
        ([line(LOOPBACK)], "tcp", True),
        ([line(ANY)], "tcp", True),
        ([line(ANY6)], "tcp6", True),
        ([line(MAPPED)], "tcp6", True),
        ([line(LAN)], "tcp", False),
        ([line(LOOPBACK, port=8081)], "tcp", False),
        ([line(LOOPBACK, state="01")], "tcp", False),
        ([line(LOOPBACK, inode=78)], "tcp", False),
        ([line(LAN, inode=78), line(LOOPBACK)], "tcp", True),
        (["garbage\n"], "tcp", False),
        ([], "tcp", False),
    ],
)
def test_the_process_that_listens_is_the_engine(box, lines, table, seen):
    found = listeners(box(*lines, table=table), frozenset({"127.0.0.1"}), 8080)
    assert found == (frozenset({50}) if seen else None)


@pytest.mark.parametrize("name", ["docker-proxy", "nginx", "ssh"])
def test_what_only_passes_requests_on_is_not_the_engine(box, name):
    assert listeners(box(line(ANY), name=name), frozenset({"127.0.0.1"}), 8080) is None


def test_the_holder_of_an_activated_socket_is_not_the_engine(box):
    assert listeners(box(line(ANY), name="systemd", pid=1), frozenset({"127.0.0.1"}), 8080) is None


def test_a_device_without_a_table_of_sockets_tells_nothing(tmp_path):
    assert listeners(Files(tmp_path), frozenset({"127.0.0.1"}), 8080) is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8080", frozenset({50})),
        ("http://[::1]:8080", frozenset({50})),
        ("http://127.0.0.1:9", None),
        ("http://192.0.2.7:8080", frozenset()),  # RFC 5737: nobody's
        ("http://no-such-host.invalid:8080", frozenset()),
    ],
)
def test_only_an_address_of_this_device_can_be_looked_up(box, url, expected):
    assert attached(url, box(line(ANY6), table="tcp6"))() == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([{1}, {2, 3}], {1, 2, 3}),
        ([set(), {2}], {2}),  # one of them is on another device
        ([{1}, None], None),
        ([set(), set()], set()),
    ],
)
def test_replicas_are_one_engine(parts, expected):
    found = together(
        [lambda part=part: part if part is None else frozenset(part) for part in parts]
    )
    assert found() == expected
