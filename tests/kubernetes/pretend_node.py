"""A node whose pods start as slowly as models do: they run once they are scheduled, and are ready some seconds later.

kwok's own pods are ready at once. The pods of this node have this machine's address, where one model server answers for
all of them.
"""

import threading
import time
from datetime import datetime, timezone

from kubernetes import client, watch

from programs import own_address

NODE = "slow-0"
# Shorter than the 5 minutes of silence after which the control plane counts a node as lost.
HEARTBEAT_SECONDS = 60


def now():
    return datetime.now(timezone.utc).isoformat()


def condition(kind, is_true):
    status = "True" if is_true else "False"
    return {"type": kind, "status": status, "reason": kind, "lastHeartbeatTime": now(), "lastTransitionTime": now()}


class PretendNode:
    """The pods of the node, and the times at which each was scheduled and deleted."""

    def __init__(self, core, namespace, start_seconds):
        self.core, self.namespace, self.start_seconds = core, namespace, start_seconds
        # By the name of the pod: its service, and the times at which it was scheduled and deleted.
        self.service, self.came, self.gone = {}, {}, {}
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self.beat, self.follow)]

    def __enter__(self):
        resources = {"cpu": "1000", "memory": "10Ti", "pods": "1000"}
        self.core.create_node({"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}},
                               "status": {"allocatable": resources, "capacity": resources}})
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()

    def beat(self):
        while not self.ended.is_set():
            ready = condition("Ready", True) | {"reason": "KubeletReady"}
            self.core.patch_node_status(NODE, {"status": {"conditions": [ready]}})
            self.ended.wait(HEARTBEAT_SECONDS)

    def follow(self):
        while not self.ended.is_set():
            events = watch.Watch().stream(self.core.list_namespaced_pod, self.namespace, timeout_seconds=600,
                                          field_selector=f"spec.nodeName={NODE}")
            for event in events:
                self.handle(event["type"], event["object"])

    def handle(self, change, pod):
        name = pod.metadata.name
        if name not in self.came:
            self.came[name] = time.monotonic()
            self.service[name] = pod.metadata.labels["serving.kserve.io/inferenceservice"]
            self.tell(pod, False)
            started = threading.Timer(self.start_seconds, self.tell, (pod, True))
            started.daemon = True
            started.start()
        if change == "DELETED":
            self.gone.setdefault(name, time.monotonic())
        elif pod.metadata.deletion_timestamp and name not in self.gone:
            self.gone[name] = time.monotonic()
            self.call(self.core.delete_namespaced_pod, name, self.namespace, grace_period_seconds=0)

    def tell(self, pod, is_ready):
        """Writes the status that a kubelet would write."""
        address = own_address()
        container = pod.spec.containers[0]
        running = {"name": container.name, "image": container.image, "imageID": "none", "ready": is_ready, "started": is_ready,
                   "restartCount": 0, "state": {"running": {"startedAt": now()}}}
        kinds = {"Initialized": True, "ContainersReady": is_ready, "Ready": is_ready}
        status = {"phase": "Running", "startTime": now(), "podIP": address, "podIPs": [{"ip": address}], "containerStatuses": [running],
                  "conditions": [condition(kind, is_true) | {"lastHeartbeatTime": None} for kind, is_true in kinds.items()]}
        self.call(self.core.patch_namespaced_pod_status, pod.metadata.name, self.namespace, {"status": status})

    @staticmethod
    def call(method, *arguments, **more):
        try:
            method(*arguments, **more)
        except client.ApiException as error:
            # A pod that has ended meanwhile needs no status.
            if error.status != 404:
                raise

    def pod_seconds(self, service, first, last):
        """Returns the total seconds for which the service's pods were on the node between two times."""
        own = [(came, self.gone.get(name, last)) for name, came in self.came.items() if self.service[name] == service]
        return sum(max(0.0, min(gone, last) - max(came, first)) for came, gone in own)

    def starts(self, service, first, last):
        return sum(first <= came <= last for name, came in self.came.items() if self.service[name] == service)

    def most(self, service, first, last):
        """Returns the maximum number of the service's pods at one time."""
        pods = [(came, self.gone.get(name, last)) for name, came in self.came.items() if self.service[name] == service]
        moments = [came for came, _ in pods if came <= last] + [first]
        return max(sum(came <= moment < gone for came, gone in pods) for moment in moments if moment >= first)
