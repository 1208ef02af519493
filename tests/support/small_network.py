"""A few machines on one network, made of Linux namespaces.

Every machine is a network and process namespace of its own: it has one address, sees
only its own processes, and shares the file system. Their links meet at a switch, a
bridge in one more namespace, so that nothing appears among the links of this computer.
All of it goes with the process that made it, however that ends.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

_TOOLS = ("ip", "nsenter", "setpriv", "unshare")
_PREFIX = "10.77.0."


def why_no_network() -> str:
    """Return why machines cannot be made here; empty if they can."""
    missing = [name for name in _TOOLS if shutil.which(name) is None]
    if missing:
        return f"network namespaces need {', '.join(missing)}"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with Network(1):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", "") or str(error)
        return f"network namespaces cannot be made: {told.strip()}"


class Machine:
    """Namespaces that stay until the machine is turned off.

    Parameters
    ----------
    address : str
        The address that it is given when it is plugged in.
    """

    def __init__(self, address: str = "") -> None:
        self.address = address
        apart = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        stay = ["sh", "-c", "echo ready; exec sleep infinity"]
        # The holder dies with whoever made it, and all processes inside with it.
        self._holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *apart, *stay],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._holder.pid
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "ready\n":
            raise OSError(self._holder.communicate()[1].strip() or "unshare failed")
        self.run("ip", "link", "set", "lo", "up")

    def inside(self, *command: str) -> list[str]:
        """Return what runs a command on the machine, with / as its folder."""
        own = f"/proc/{self.pid}/ns"
        where = [f"--net={own}/net", f"--mount={own}/mnt"]
        return ["nsenter", *where, f"--pid={own}/pid_for_children", "--", *command]

    def run(self, *command: str, **options: Any) -> str:
        """Run a command on the machine and return what it prints."""
        usual = {"check": True, "capture_output": True, "text": True, "timeout": 300}
        return str(subprocess.run(self.inside(*command), **usual | options).stdout)

    def turn_off(self) -> None:
        """Send SIGKILL to all processes of the machine; its namespaces go, too."""
        self._holder.kill()
        self._holder.communicate()


class Network:
    """Machines at 10.77.0.1, 10.77.0.2 and so on, and a switch between them.

    Parameters
    ----------
    machines : int
        How many.
    """

    def __init__(self, machines: int) -> None:
        self.machines: list[Machine] = []
        with ExitStack() as made:
            self._switch = Machine()
            made.callback(self._switch.turn_off)
            self._ip("link", "add", "bridge", "type", "bridge")
            self._ip("link", "set", "bridge", "up")
            made.callback(self._turn_off)
            for place in range(machines):
                self.machines.append(Machine(f"{_PREFIX}{place + 1}"))
                self._plug_in(place)
            self._made = made.pop_all()

    def replace(self, place: int) -> Machine:
        """Put a new machine with the same address where one was, and return it."""
        self.machines[place].turn_off()
        self.machines[place] = Machine(self.machines[place].address)
        # The switch's end of the old cable goes with the old machine, but not at once.
        subprocess.run(
            self._switch.inside("ip", "link", "del", f"port{place}"),
            capture_output=True,
            check=False,
        )
        self._plug_in(place)
        return self.machines[place]

    def cut(self, place: int) -> None:
        """Take the link of a machine down at the switch, as if a cable were pulled."""
        self._ip("link", "set", f"port{place}", "down")

    def traffic(self, place: int) -> tuple[int, int]:
        """Return the bytes that went to a machine, and came from it, so far."""
        told = self._switch.run("ip", "-s", "-j", "link", "show", f"port{place}")
        seen = json.loads(told)[0]["stats64"]
        return seen["tx"]["bytes"], seen["rx"]["bytes"]

    def _plug_in(self, place: int) -> None:
        machine, port = self.machines[place], f"port{place}"
        ends = ["type", "veth", "peer", "name", "eth0", "netns", f"{machine.pid}"]
        # Names of processes are the switch's own in there: only its network is used.
        enter = ["nsenter", f"--net=/proc/{self._switch.pid}/ns/net", "--"]
        subprocess.run(
            [*enter, "ip", "link", "add", port, *ends],
            check=True,
            capture_output=True,
            text=True,
        )
        self._ip("link", "set", port, "master", "bridge", "up")
        # A machine that is replaced keeps its card: others know it for some time.
        machine.run(
            "ip", "link", "set", "eth0", "address", f"02:00:00:00:00:{place:02}"
        )
        machine.run("ip", "address", "add", f"{machine.address}/24", "dev", "eth0")
        machine.run("ip", "link", "set", "eth0", "up")

    def _ip(self, *words: str) -> None:
        self._switch.run("ip", *words)

    def _turn_off(self) -> None:
        for machine in self.machines:
            machine.turn_off()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._made.close()
