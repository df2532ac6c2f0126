"""Starts the compared proxies in front of one upstream. Each has one core and one worker thread."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from .servers import CLIENT_CORE, READY_WITHIN, SERVER_CORE, free_ports

# Name of the service, which is the name of the model in requests.
MODEL = "upstream"
PROXIES = ("weir", "nginx", "haproxy", "haproxy-64k")
LOOK_EVERY = 0.05
BOTH_CORES = f"{SERVER_CORE},{CLIENT_CORE}"

# The upstream is Weir's replica, so only Weir needs its command; the other proxies get its ports.
SERVICE = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: {model}
spec:
  predictor:
    minReplicas: 1
    maxReplicas: 1
    containers:
      - name: kserve-container
        command: {command}
        env:
          - name: PORT
            value: "{http}"
          - name: GRPC_PORT
            value: "{grpc}"
        readinessProbe:
          httpGet:
            path: /v2/health/ready
            port: {http}
"""

# Bodies stay in memory, connections are kept alive on both sides, and nothing is logged.
NGINX = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    tcp_nodelay on;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    client_max_body_size 0;
    client_body_buffer_size 2m;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    proxy_buffers 64 32k;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    http2_body_preread_size 1m;
    http2_recv_buffer_size 1m;
    grpc_buffer_size 64k;
    upstream plain {{
        server 127.0.0.1:{upstream_http};
        keepalive 256;
        keepalive_requests 1000000000;
    }}
    upstream calls {{
        server 127.0.0.1:{upstream_grpc};
        keepalive 256;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{http};
        location / {{ proxy_pass http://plain; }}
    }}
    server {{
        listen 127.0.0.1:{grpc} http2;
        location / {{ grpc_pass grpc://calls; }}
    }}
}}
"""

# The default buffers are best for small requests, and larger ones for large requests, so both are measured.
HAPROXY_BUFFERS = {"haproxy": 16 << 10, "haproxy-64k": 64 << 10}
HAPROXY = """
global
    nbthread 1
    maxconn 4096
    tune.bufsize {buffer}
    tune.h2.initial-window-size 1048576
defaults
    mode http
    timeout connect 5s
    timeout client 600s
    timeout server 600s
    http-reuse always
frontend plain
    bind 127.0.0.1:{http}
    default_backend plain
backend plain
    server one 127.0.0.1:{upstream_http}
frontend calls
    bind 127.0.0.1:{grpc} proto h2
    default_backend calls
backend calls
    server one 127.0.0.1:{upstream_grpc} proto h2
"""


class Proxy:
    """A running proxy: its ports, and the process from which its CPU time is read."""

    def __init__(self, name: str, pid: int, http: int, grpc: int):
        self.name, self.pid, self.http, self.grpc = name, pid, http, grpc

    def memory_mib(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise SystemExit(f"{self.name} has ended")


@contextlib.contextmanager
def started(command: list, log: Path, cores: str = str(SERVER_CORE)):
    """Runs a process on the servers' core until the end of the block."""
    pinned = ["taskset", "-c", cores, *command]
    with log.open("wb") as output:
        process = subprocess.Popen(pinned, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def children(pid: int) -> list:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def wait_ready(name: str, port: int, process, log: Path) -> None:
    begun = time.monotonic()
    while time.monotonic() - begun < READY_WITHIN and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(LOOK_EVERY)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise SystemExit(f"{name} did not become ready; its log ends:\n{tail}")


@contextlib.contextmanager
def weir(program: Path, folder: Path, services: Path, cores: str = str(SERVER_CORE)):
    """Runs Weir with the services of a file or folder."""
    port, admin = free_ports(2)
    log = folder / "weir.log"
    up = [str(program), "up", "-f", str(services), "--port", str(port), "--admin-port", str(admin),
          "--state-dir", str(folder / "state")]
    with started(up, log, cores) as process:
        wait_ready("weir", port, process, log)
        yield Proxy("weir", process.pid, port, port)


def service(upstream: Path, settings: dict) -> str:
    """Returns the YAML of a service whose replica is the upstream."""
    command = ["taskset", "-c", str(CLIENT_CORE), str(upstream), "--http-port", str(settings["upstream_http"]),
               "--grpc-port", str(settings["upstream_grpc"])]
    return SERVICE.format(model=MODEL, command=json.dumps(command), http=settings["upstream_http"],
                          grpc=settings["upstream_grpc"])


@contextlib.contextmanager
def nginx(folder: Path, settings: dict):
    http, grpc = free_ports(2)
    path = folder / "nginx.conf"
    path.write_text(NGINX.format(folder=folder, http=http, grpc=grpc, **settings))
    log = folder / "nginx.log"
    command = [program("nginx"), "-p", str(folder), "-e", "stderr", "-c", str(path)]
    with started(command, log) as process:
        wait_ready("nginx", http, process, log)
        # The first process only supervises the worker.
        (worker,) = children(process.pid)
        yield Proxy("nginx", worker, http, grpc)


@contextlib.contextmanager
def haproxy(name: str, folder: Path, settings: dict):
    http, grpc = free_ports(2)
    buffer = HAPROXY_BUFFERS[name]
    path = folder / f"haproxy-{buffer}.cfg"
    path.write_text(HAPROXY.format(http=http, grpc=grpc, buffer=buffer, **settings))
    log = path.with_suffix(".log")
    with started([program("haproxy"), "-db", "-f", str(path)], log) as process:
        wait_ready(name, http, process, log)
        yield Proxy(name, process.pid, http, grpc)


def program(name: str) -> str:
    """Finds a program, also in the folders that Debian only has in root's PATH."""
    places = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/local/sbin"
    found = shutil.which(name, path=places)
    if found is None:
        raise SystemExit(f"{name} is missing. On Debian and Ubuntu: apt-get install {name}")
    return found


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@contextlib.contextmanager
def all_of(names: list, weir_program: Path, upstream: Path, folder: Path):
    """Runs the named proxies; `direct` is the upstream itself."""
    fresh(folder)
    upstream_http, upstream_grpc = free_ports(2)
    settings = {"upstream_http": upstream_http, "upstream_grpc": upstream_grpc}
    (folder / "service.yaml").write_text(service(upstream, settings))
    with contextlib.ExitStack() as stack:
        running = {"weir": stack.enter_context(weir(weir_program, folder, folder / "service.yaml"))}
        (replica,) = children(running["weir"].pid)
        running["direct"] = Proxy("direct", replica, upstream_http, upstream_grpc)
        if "nginx" in names:
            running["nginx"] = stack.enter_context(nginx(folder, settings))
        for name in HAPROXY_BUFFERS.keys() & set(names):
            running[name] = stack.enter_context(haproxy(name, folder, settings))
        yield {name: running[name] for name in names}
