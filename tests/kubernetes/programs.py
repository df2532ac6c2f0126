"""Weir's three programs next to the test control plane, each with its own log."""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

from weir import ROOT, kubectl

WEIR = os.environ.get("WEIR", str(ROOT / "target/debug/weir"))
# If possible, the kernel ends the programs together with this process.
LAUNCH = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
# Name of the gateway's pod; the gateway is a process of this machine.
GATEWAY = "gateway-0"


def apply(*objects):
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def own_address():
    """Returns this machine's address in its network, because endpoints must not be at 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]


class Programs:
    """All started programs; they end with the `with` block."""

    def __init__(self, folder, weir=WEIR):
        self.folder, self.weir = Path(folder), weir
        # By name: the command with its variables, and the process.
        self.commands, self.running = {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.running.values():
            program.terminate()
        for program in self.running.values():
            program.wait(30)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def start(self, name, *command, **variables):
        self.commands[name] = command, variables
        self.start_again(name)

    def start_again(self, name):
        command, variables = self.commands[name]
        with open(self.folder / f"{name}.log", "a") as log:
            self.running[name] = subprocess.Popen([*LAUNCH, *command], stdout=log, stderr=log, env=os.environ | variables)

    def end(self, name):
        self.running[name].terminate()
        self.running[name].wait(30)

    def start_weir(self, *autoscaler_flags):
        """Starts all three programs. Returns the port for requests, and the autoscaler's admin port, which is KEDA's
        external scaler."""
        kubectl("create", "namespace", "weir-system")
        serving, admin, scaler = free_port(), free_port(), free_port()
        # The gateway is called at this machine's address, as a pod would be at its own.
        self.start("gateway", self.weir, "gateway", "-v", "--port", str(serving), "--admin-port", str(admin), "--name", GATEWAY)
        publish(serving, admin)
        for name, port, more in (("controller", 0, []), ("autoscaler", scaler, autoscaler_flags)):
            self.start(name, self.weir, name, "-v", "--address", "127.0.0.1", "--admin-port", str(port), "--name", f"{name}-0", *more)
        return serving, scaler


def publish(serving, admin):
    """Publishes the gateway's address, as the Service of its pods would."""
    apply({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "weir-gateway-0", "namespace": "weir-system", "labels": {"kubernetes.io/service-name": "weir-gateway"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True},
                       "targetRef": {"kind": "Pod", "name": GATEWAY, "namespace": "weir-system"}}],
        "ports": [{"name": "http", "port": serving}, {"name": "admin", "port": admin}],
    })
