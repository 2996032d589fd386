"""A server in a container, through the command line of docker or podman.

No image is pulled: a plant's network is slow, and what is measured has to be known before.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec

from edgesweep_agent.errors import LaunchError, SettingsError

from . import child, memory
from .mounts import mount
from .process import STOP_S, ServerProcess, free_port, log_file
from .tether import OOM_SCORE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from edgesweep_agent.core.command import Command
    from edgesweep_agent.core.processes import Identity
    from edgesweep_agent.plan import ManagedSpec

    from .child import Child

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - in the container's own network, published on loopback alone
_NAME = "edgesweep"
_RUN_FLAGS = frozenset(
    {
        *("--runtime", "--gpus", "--ipc", "--shm-size", "--ulimit", "--group-add", "--user"),
        *("--security-opt", "--memory", "--memory-swap", "--cpus", "--cpuset-cpus", "--tmpfs"),
    }
)
"""Flags of a plan that are the container's, not the server's."""
_REFUSED = frozenset({"--network", "--net", "--publish", "-p", "--privileged", "--volume", "-v"})
"""The engine listens on loopback alone, and writes nowhere."""
_STARTING_S = 60.0
_LOOK_AGAIN_S = 0.1


class ServerContainer(ServerProcess):
    """The running container, seen through its command line tool."""

    def __init__(self, running: Child, port: int, build: str) -> None:
        super().__init__(running, port)
        self.build = build
        self.root: int | None = None

    def pids(self) -> frozenset[Identity]:
        """The container's first process and all below it; the tool itself is not the server."""
        if self.root is None:
            return frozenset()
        return child.identify({process.pid for process in child.family(self.root)})


class ContainerPlace:
    """In a container of one image, on this machine.

    Args:
        cli: ``docker``, ``podman``, or a path.
        spec: The plan, with paths as they are in the container.
        mounts: Arguments that give it the model.
        flags: The plan's flags that are the container's: runtime, GPUs.
        stop_s: How long a server may take to end before its container is killed.
        return_s: How long its memory may take to come back.
    """

    host = ANY_ADDRESS

    def __init__(
        self,
        cli: str,
        spec: ManagedSpec,
        *,
        mounts: tuple[str, ...],
        flags: Mapping[str, str],
        stop_s: float,
        return_s: float,
    ) -> None:
        self.spec = spec
        self._cli = cli
        self.settings: Mapping[str, str] = {
            f"container.{name}": value or "set" for name, value in flags.items()
        }
        self._options = (*mounts, *(part for pair in flags.items() for part in pair if part))
        self._stop_s = stop_s
        self._return_s = return_s

    async def ask(self, command: Command) -> str:
        """Run a command in a container of its own to its end, without a network."""
        run = ("run", "--rm", "--network", "none", *self._run(command))
        return await child.ask((self._cli, *run), {})

    @asynccontextmanager
    async def start(
        self, command: Callable[[int], Command], *, log: Path | None = None
    ) -> AsyncIterator[ServerContainer]:
        """Start the command in a container, its port published on loopback alone.

        Raises:
            LaunchError: the tool or the image is not there.
        """
        build = await self._image()
        await self._remove_leftovers()
        port, name = free_port(), f"{_owner(os.getpid())}-{secrets.token_hex(4)}"
        before = memory.free_now()
        run = (
            *("run", "--rm", "--name", name, "-p", f"127.0.0.1:{port}:{port}"),
            *("--label", f"{_NAME}=1", "--label", f"{_NAME}.boot={_boot_id()}"),
            *("--oom-score-adj", str(OOM_SCORE)),
            *self._run(command(port)),
        )
        with log_file(log) as kept:
            running = await child.spawn((self._cli, *run), {}, kept)
            server = ServerContainer(running, port, build)
            try:
                server.root = await self._root(name, running)
                yield server
            finally:
                with anyio.CancelScope(shield=True):
                    await self._stop(name, running)
                    server.memory = await memory.came_back(before, wait_s=self._return_s)

    def _run(self, command: Command) -> tuple[str, ...]:
        entry, *rest = command.program or ("",)
        return (
            *("--pull", "never"),
            *self._options,
            *(part for item in command.environment.items() for part in ("-e", "=".join(item))),
            *(("--entrypoint", entry) if entry else ()),
            self.spec.image,
            *rest,
            *command.arguments,
        )

    async def _image(self) -> str:
        """The image's digest: the registry's if it has one, else its own.

        Raises:
            LaunchError: the tool or the image is not there.
        """
        text = await self._call("image", "inspect", self.spec.image)
        try:
            found = json.loads(text[text.index("[") :])[0]
        except (ValueError, IndexError) as error:
            said = " ".join(text.split())[:200] or f"{self._cli} cannot be run"
            step = f"{self._cli} pull {self.spec.image}"
            if not re.search("no such image|image not known", text, re.IGNORECASE):
                step = f"see that {self._cli} info works for the agent's user"
            raise LaunchError(f"image {self.spec.image} cannot be used: {said}: {step}") from error
        digests = found.get("RepoDigests") or [found.get("Id", "")]
        return f"image {digests[0].rpartition('@')[2]}"

    async def _root(self, name: str, running: Child) -> int | None:
        """The first process of the container, once it runs; ``None`` if it ends before."""
        with anyio.move_on_after(_STARTING_S):
            while running.exit is None:
                text = await self._call("inspect", "--format", "{{.State.Pid}}", name)
                if text.strip().isdecimal() and int(text):
                    return int(text)
                await anyio.sleep(_LOOK_AGAIN_S)
        return None

    async def _stop(self, name: str, running: Child) -> None:
        """Asked, made to, and removed: a tool that hangs is no reason to leave it running."""
        if running.exit is None:
            await self._call("stop", "-t", str(max(1, round(self._stop_s))), name)
        if not await running.wait(self._stop_s):
            await self._call("kill", name)
        await self._call("rm", "-f", name)
        await running.stop(stop_s=self._stop_s)

    async def _remove_leftovers(self) -> None:
        """Remove containers of agents that died on this machine, since it was booted."""
        filters = ("--filter", f"label={_NAME}=1", "--filter", f"label={_NAME}.boot={_boot_id()}")
        for name in (await self._call("ps", "-a", *filters, "--format", "{{.Names}}")).split():
            if _is_leftover(name):
                await self._call("rm", "-f", name)

    async def _call(self, *arguments: str) -> str:
        return await child.ask((self._cli, *arguments), {})


class ContainerLauncher:
    """Starts servers in containers.

    Args:
        stop_s: How long a server may take to end before its container is killed.
        return_s: How long its memory may take to come back.
    """

    name = "container"

    def __init__(self, *, stop_s: float = STOP_S, return_s: float = memory.WAIT_S) -> None:
        self._stop_s = stop_s
        self._return_s = return_s

    def place(self, spec: ManagedSpec) -> ContainerPlace:
        """In a container with the model's folder, read-only; the engine must not write there.

        Raises:
            SettingsError: no image, or a model that cannot be mounted.
        """
        if not spec.image:
            raise SettingsError('launcher "container" needs image')
        for name in sorted(_REFUSED & frozenset(spec.flags)):
            raise SettingsError(
                f"flags: {name}: a managed container is given no more than it needs"
            )
        mounts = [mount(spec.model, "/models")]
        speculative = spec.speculative
        if speculative is not None and speculative.model is not None:
            mounts.append(mount(speculative.model, "/draft"))
            speculative = msgspec.structs.replace(speculative, model=mounts[1].path)
        ours = {name: value for name, value in spec.flags.items() if _is_run_flag(name, value)}
        inside = msgspec.structs.replace(
            spec,
            model=mounts[0].path,
            speculative=speculative,
            flags={name: value for name, value in spec.flags.items() if name not in ours},
        )
        return ContainerPlace(
            str(spec.runtime or "docker"),
            inside,
            mounts=tuple(part for one in mounts for part in one.arguments()),
            flags=ours,
            stop_s=self._stop_s,
            return_s=self._return_s,
        )


def _is_run_flag(name: str, value: str) -> bool:
    """``--device`` is the container's for a device file or a CDI name, else the engine's."""
    return name in _RUN_FLAGS or (name == "--device" and ("/" in value or "=" in value))


def _owner(pid: int) -> str:
    """An agent, in a container's name: its PID namespace, number and start time."""
    namespace = Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    ticks = next((one.start_ticks for one in child.identify({pid})), 0)
    return f"{_NAME}-{namespace}-{pid}-{ticks}"


def _is_leftover(name: str) -> bool:
    """Whether the agent that named a container is gone; one in another namespace is unseen."""
    prefix, *parts = name.split("-")
    if prefix != _NAME or len(parts) != 4 or not parts[1].isdecimal():
        return False
    mine = _owner(os.getpid()).split("-")
    return parts[0] == mine[1] and _owner(int(parts[1])) != "-".join(name.split("-")[:4])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
