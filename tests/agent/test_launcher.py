"""What every launcher has to do, whichever way it starts a server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import psutil
import pytest

import container_cli
from edgesweep_agent.core.command import Command
from edgesweep_agent.core.memory_return import Free, judge
from edgesweep_agent.errors import LaunchError, SettingsError
from edgesweep_agent.launchers import child, memory
from edgesweep_agent.launchers.container import ContainerLauncher
from edgesweep_agent.launchers.mounts import mount
from edgesweep_agent.launchers.process import STOP_S, ProcessLauncher
from edgesweep_agent.plan import ManagedSpec, Speculative

pytestmark = pytest.mark.anyio

STAY = "import time; print('up', flush=True); time.sleep(60)"
PARENT = f"import subprocess; subprocess.Popen(['sleep', '60']); {STAY}"
RUNAWAY = PARENT.replace("'60']", "'60'], start_new_session=True")
LEAVER = """
import subprocess, sys
print(subprocess.Popen(["sleep", "60"], start_new_session=True).pid, flush=True)
sys.exit(3)
"""
SLOW_TO_END = """
import signal, sys, time
signal.signal(15, lambda *_: [time.sleep(0.3), print("bye", flush=True), sys.exit()])
print("up", flush=True)
time.sleep(60)
"""
AGENT = """
import anyio, sys, time
from pathlib import Path
from edgesweep_agent.launchers import child

async def main(log, whole, *argv):
    server = await child.spawn(argv, {}, Path(log), whole=whole == "whole")
    while "up" not in server.log_text():
        await anyio.sleep(0.02)
    print(*(one.pid for one in server.pids()), flush=True)
    time.sleep(60)

anyio.run(main, *sys.argv[1:])
"""
DEAF_PARENT = f"import signal; signal.signal(15, signal.SIG_IGN); {PARENT}"
MIB = 1 << 20


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "m.gguf").write_bytes(b"GGUF")
    return folder / "m.gguf"


@pytest.fixture
def cli(tmp_path):
    return container_cli.install(tmp_path)


@pytest.fixture(params=["process", "container"])
def place(request, model, cli):
    if request.param == "process":
        return ProcessLauncher(stop_s=0.3, return_s=0).place(spec(model))
    return ContainerLauncher(stop_s=1, return_s=0).place(contained(model, cli))


def spec(model, **keys):
    return ManagedSpec(model, slots=2, context_per_request=512, **keys)


def contained(model, cli, **keys):
    keys = {"launcher": "container", "image": "engine:1", "runtime": cli, **keys}
    return spec(model, server="llama-server", **keys)


def python(code, **environment):
    return lambda _port: Command((sys.executable, "-c", code), environment=environment)


async def says_up(server):
    with anyio.fail_after(10):
        while "up" not in server.log_text():
            await anyio.sleep(0.02)


async def ends(server):
    with anyio.fail_after(10):
        while server.exit is None:
            await anyio.sleep(0.02)


def sleeper():
    return subprocess.Popen(["sleep", "60"], start_new_session=True)


def running(code, *arguments):
    argv = [sys.executable, "-c", code, *map(str, arguments)]
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, **path})


def gone(processes):
    return not child.identify({one.pid for one in processes}) & processes


def buried(processes):
    return not any(Path(f"/proc/{one.pid}").exists() for one in processes)


def wrapper(folder, before=":"):
    """Starts an engine as users' scripts do: without ``exec``."""
    path = folder / "engine.sh"
    path.write_text(f'#!/bin/sh\n{before}\n"{sys.executable}" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("code", "sign"), [(PARENT, signal.SIGTERM), (DEAF_PARENT, signal.SIGKILL)]
)
async def test_a_server_goes_with_all_it_has_started(place, code, sign):
    async with place.start(python(code)) as server:
        await says_up(server)
        processes = server.pids()
        assert len(processes) == 2
        assert server.exit is None
        assert server.exit_text is None
    assert gone(processes)
    assert server.exit.signal == sign


async def test_what_has_left_the_servers_group_goes_too(model):
    async with ProcessLauncher(return_s=0).place(spec(model)).start(python(RUNAWAY)) as server:
        await says_up(server)
        processes = server.pids()
        assert len(processes) == 2
        asked = time.monotonic()
    assert buried(processes)
    assert time.monotonic() - asked < STOP_S / 2


async def test_what_a_server_leaves_behind_goes_as_soon_as_it_ends(model):
    async with ProcessLauncher(return_s=0).place(spec(model)).start(python(LEAVER)) as server:
        await ends(server)
        assert server.exit.code == 3
        assert not Path(f"/proc/{server.log_text().strip()}").exists()


async def test_an_engine_whose_wrapper_ends_first_has_the_time_that_a_server_has(model, tmp_path):
    argv = (str(wrapper(tmp_path)), "-c", SLOW_TO_END)
    place, log = ProcessLauncher(return_s=0).place(spec(model)), tmp_path / "server.log"
    async with place.start(lambda _port: Command(argv), log=log) as server:
        await says_up(server)
        processes = server.pids()
        assert len(processes) == 2
        held = tether(server)
    assert server.exit.signal == signal.SIGTERM
    assert log.read_text() == "up\nbye\n"
    assert buried({*processes, held})


async def test_a_server_whose_tether_was_killed_goes_too(model):
    async with ProcessLauncher(return_s=0).place(spec(model)).start(python(PARENT)) as server:
        await says_up(server)
        processes = server.pids()
        tether(server).kill()
        await ends(server)
        assert server.exit.signal == signal.SIGKILL
        assert within_2_s(lambda: len(server.pids()) == 1)
    assert gone(processes)


async def test_a_server_that_ends_at_once_tells_how_and_its_last_words(place):
    code = "import sys; print('no such model', file=sys.stderr); sys.exit(3)"
    async with place.start(python(code)) as server:
        await ends(server)
        assert server.exit.code == 3
        assert server.exit_text == "exit code 3; its last words: no such model"
        assert server.pids() == frozenset()


@pytest.mark.parametrize("sign", [signal.SIGILL, signal.SIGKILL])
async def test_a_signal_is_told_as_one(place, sign):
    async with place.start(python(f"import os; os.kill(os.getpid(), {sign:d})")) as server:
        await ends(server)
        assert server.exit.signal_name == sign.name
        assert server.exit.oom_kills == 0


async def test_the_log_is_kept_where_it_was_asked_for_and_read_in_parts(place, tmp_path):
    log = tmp_path / "server.log"
    async with place.start(python("print('up'); print('and ready')"), log=log) as server:
        await ends(server)
        assert server.log_text() == "up\nand ready\n"
        assert server.log_text(since=3) == "and ready\n"
        assert server.log_bytes == 13
    assert log.read_text() == "up\nand ready\n"
    assert server.memory.waited_s < 5


async def test_each_start_has_a_port_of_its_own_and_its_environment(place):
    seen = []

    def command(port):
        seen.append(port)
        return python("import os; print('up', os.environ['DO_NOT_TRACK'])", DO_NOT_TRACK="1")(port)

    async with place.start(command) as one, place.start(command) as two:
        await ends(one)
        assert [one.port, two.port] == seen
        assert one.log_text() == "up 1\n"
    assert seen[0] != seen[1]


async def test_a_variable_of_the_agents_own_does_not_set_up_an_engine(place, monkeypatch):
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "7")
    code = "import os; print(os.environ.get('LLAMA_ARG_CTX_SIZE', 'unset'))"
    assert (await place.ask(Command((sys.executable, "-c", code)))).strip() == "unset"


async def test_a_place_answers_questions(place):
    answer = await place.ask(Command((sys.executable, "-c", "print('version: 7 (abc)')")))
    assert answer.strip() == "version: 7 (abc)"


async def test_a_program_that_is_not_there_is_named_and_answers_nothing(model):
    place = ProcessLauncher().place(spec(model))
    with pytest.raises(LaunchError, match=r"/no/such/program: No such file"):
        async with place.start(lambda _port: Command(("/no/such/program",))):
            pass
    assert await place.ask(Command(("/no/such/program",))) == ""


async def test_a_file_that_is_no_program_is_named(model, tmp_path):
    program = tmp_path / "engine"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    place = ProcessLauncher(return_s=0).place(spec(model))
    async with place.start(lambda _port: Command((str(program),))) as server:
        await ends(server)
        assert server.exit_text.endswith(f"last words: {program}: Exec format error")


async def test_a_server_goes_first_when_memory_runs_out_and_its_tether_does_not(model):
    code = f"print(open('/proc/self/oom_score_adj').read()); {STAY}"
    async with ProcessLauncher(return_s=0).place(spec(model)).start(python(code)) as server:
        await says_up(server)
        assert server.log_text().split() == ["900", "up"]
        of_tether = Path(f"/proc/{tether(server).pid}/oom_score_adj")
        assert of_tether.read_text() == Path("/proc/self/oom_score_adj").read_text()


def test_a_wrapper_an_engine_and_all_that_left_them_go_with_a_killed_agent(tmp_path):
    argv = (wrapper(tmp_path, before="(setsid sleep 60 &)"), "-c", RUNAWAY)
    processes = at_the_kill_of_an_agent(tmp_path / "log", "whole", *argv)
    assert len(processes) == 4
    assert within_2_s(lambda: buried(processes))


def test_a_container_is_asked_to_end_when_its_agent_is_killed(tmp_path, cli):
    argv = (cli, "run", "--entrypoint", sys.executable, "engine:1", "-c", PARENT)
    processes = at_the_kill_of_an_agent(tmp_path / "log", "client", *argv)
    assert len(processes) == 3
    assert within_2_s(lambda: gone(processes))


def at_the_kill_of_an_agent(*arguments):
    """What of a server there was then."""
    with running(AGENT, *arguments) as dying:
        processes = child.identify({int(pid) for pid in dying.stdout.readline().split()})
        dying.kill()
    return processes


def within_2_s(true):
    deadline = time.monotonic() + 2
    while not (came := true()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return came


def tether(server):
    """Of a server that is one process, or the parent of the others."""
    found = psutil.Process(min(one.pid for one in server.pids())).parent()
    assert child.tether.__file__ in found.cmdline()
    return found


async def test_a_container_gets_what_it_needs_and_no_more(model, cli):
    draft = model.parent / "d.gguf"
    draft.write_bytes(b"GGUF")
    asked = contained(
        model,
        cli,
        flags={"--gpus": "all", "--device": "nvidia.com/gpu=0", "--swa-full": ""},
        speculative=Speculative("draft-simple", draft),
    )
    place = ContainerLauncher(stop_s=1, return_s=0).place(asked)
    assert place.spec.model == Path("/models/m.gguf")
    assert place.spec.speculative.model == Path("/draft/d.gguf")
    assert place.spec.flags == {"--swa-full": ""}
    assert place.settings == {"container.--gpus": "all", "container.--device": "nvidia.com/gpu=0"}
    (cli.parent / "entrypoint").write_text("/bin/cat")
    async with place.start(lambda _port: Command((), (str(place.spec.model),))) as server:
        await ends(server)
        assert server.log_text() == "GGUF"
        assert server.build == f"image {container_cli.DIGEST}"
    (run,) = [call for call in container_cli.calls(cli) if call[0] == "run"]
    text = " ".join(run)
    assert text.startswith("run --rm --name edgesweep-")
    assert f"-p 127.0.0.1:{server.port}:{server.port}" in text
    assert f"--mount type=bind,source={model.parent},target=/models,readonly" in text
    assert "--label edgesweep=1" in text
    assert "--pull never" in text
    assert text.endswith("--gpus all --device nvidia.com/gpu=0 engine:1 /models/m.gguf")


async def test_what_a_dead_agent_left_behind_is_removed_and_nothing_else(model, cli):
    place = ContainerLauncher(stop_s=1, return_s=0).place(contained(model, cli))
    async with place.start(python(PARENT)) as mine:
        await says_up(mine)
        (note,) = cli.parent.glob("*.container")
        prefix, namespace, _pid, _ticks, token = note.stem.split("-")
        with sleeper() as left:
            labels = note.read_text().replace(str(next(iter(mine.pids())).pid), str(left.pid))
            labels = (
                f'{{"pid": {left.pid}, "labels"{labels.partition(chr(34) + "labels" + chr(34))[2]}'
            )
            for name in (f"{prefix}-{namespace}-{left.pid}-1-{token}", "edgesweep-notes"):
                (cli.parent / f"{name}.container").write_text(labels)
            async with place.start(python(PARENT)) as other:
                await says_up(other)
                assert mine.exit is None
                assert left.wait(5) == -signal.SIGKILL
                assert (cli.parent / "edgesweep-notes.container").exists()


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (
            {"image": "missing:1"},
            "image missing:1 cannot be used: .*No such image.* pull missing:1",
        ),
        (
            {"runtime": Path("/no/docker")},
            "/no/docker cannot be run: see that /no/docker info works",
        ),
    ],
)
async def test_an_image_or_a_tool_that_is_not_there_is_named(model, cli, keys, says):
    place = ContainerLauncher().place(contained(model, cli, **keys))
    with pytest.raises(LaunchError, match=says):
        async with place.start(python("")):
            pass


@pytest.mark.parametrize("flag", ["--network", "-p", "--privileged"])
def test_a_container_stays_on_loopback_and_unprivileged(model, cli, flag):
    with pytest.raises(SettingsError, match=f"flags: {flag}: "):
        ContainerLauncher().place(contained(model, cli, flags={flag: "host"}))


def test_a_process_has_no_container_tool(model, cli):
    with pytest.raises(SettingsError, match='runtime belongs to launcher "container"'):
        ProcessLauncher().place(spec(model, runtime=cli))


def test_a_mount_holds_all_that_links_lead_to(tmp_path):
    hub = tmp_path / "models--org--name"
    (hub / "blobs").mkdir(parents=True)
    (hub / "blobs" / "abc").write_text("{}")
    snapshot = hub / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to("../../blobs/abc")
    found = mount(snapshot, "/models")
    assert found.source == hub
    assert found.path == Path("/models/snapshots/1")
    with pytest.raises(SettingsError, match="is not there"):
        mount(tmp_path / "none", "/models")
    (snapshot / "far").symlink_to("/etc/hostname")
    with pytest.raises(SettingsError, match="cannot be given to a container"):
        mount(snapshot, "/models")


@pytest.mark.parametrize(
    ("before", "after", "shortfall_mib", "complete"),
    [
        (Free(8000 * MIB), Free(8000 * MIB), 0, True),
        (Free(8000 * MIB), Free(8500 * MIB), 0, True),
        (Free(8000 * MIB), Free(7950 * MIB), 50, True),
        (Free(8000 * MIB), Free(7000 * MIB), 1000, False),
        # A model now in the page cache: at most the low watermark of it is not "available".
        (Free(8000 * MIB, 0, 60 * MIB), Free(7900 * MIB, 900 * MIB, 60 * MIB), 40, True),
        (Free(8000 * MIB, own_bytes=MIB), Free(7900 * MIB, own_bytes=81 * MIB), 20, True),
    ],
)
def test_memory_that_did_not_come_back(before, after, shortfall_mib, complete):
    found = judge(before, after, 0.5)
    assert found.shortfall_bytes == shortfall_mib * MIB
    assert found.complete == complete


async def test_memory_is_waited_for_but_not_for_ever():
    slow = iter([Free(7000 * MIB), Free(7500 * MIB), Free(8000 * MIB)])
    found = await memory.came_back(Free(8000 * MIB), wait_s=5, now=lambda: next(slow))
    assert found.complete
    started = time.monotonic()
    found = await memory.came_back(Free(8000 * MIB), wait_s=0.3, now=lambda: Free(7000 * MIB))
    assert found.shortfall_bytes == 1000 * MIB
    assert 0.3 <= time.monotonic() - started < 1


def test_the_machine_tells_its_memory():
    found = memory.free_now()
    assert found.available_bytes > found.own_bytes > 0
    assert 0 < found.low_watermark_bytes < found.available_bytes
