"""A model server on this machine that answers for all simulated pods, and the pods' addresses, which are set to this
machine's."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from programs import kubectl, own_address
from weir import Failure

ANSWER = {"outputs": [{"name": "OUTPUT0", "datatype": "INT32", "shape": [1], "data": [42]}]}


class Server(ThreadingHTTPServer):
    # All pods are one server here, so all of their connections arrive at once.
    request_queue_size = 128

    def handle_error(self, *_):
        """Ignores errors: a gateway closes connections to pods that have ended, even during a response."""


class ModelServer:
    """Answers each request once it is permitted to, and after a number of seconds. A request that waits keeps its pod
    busy."""

    def __init__(self, seconds=0):
        self.may_answer, self.seconds = threading.Event(), seconds
        self.may_answer.set()
        self.server = Server(("0.0.0.0", 0), self.handler())
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def handler(self):
        may_answer, seconds = self.may_answer, self.seconds

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.answer({})

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                may_answer.wait()
                time.sleep(seconds)
                self.answer(ANSWER)

            def answer(self, value):
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler


class Addresses:
    """Sets the address of each running pod to this machine's, because kwok's addresses lead nowhere."""

    def __init__(self, namespace):
        self.namespace, self.address, self.ended = namespace, own_address(), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.ended.wait(0.2):
            for pod in json.loads(kubectl("get", "pods", "-n", self.namespace, "-o", "json"))["items"]:
                if pod["status"].get("podIP", self.address) != self.address:
                    self.give(pod["metadata"]["name"])

    def give(self, pod):
        patch = json.dumps({"status": {"podIP": self.address, "podIPs": [{"ip": self.address}]}})
        try:
            kubectl("patch", "pod", pod, "-n", self.namespace, "--subresource", "status", "--type", "merge", "-p", patch)
        except Failure as failure:
            # A pod that has ended meanwhile needs no address.
            if "not found" not in str(failure):
                raise

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
