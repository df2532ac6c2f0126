"""A model server other than Weir's. It speaks just enough of V2 over HTTP, takes a while to load, and exits at once on
SIGTERM, like servers that were not written for Kubernetes. Its model doubles numbers; environment variables set the
rest of its answers.

    PORT=8080 ANSWER=first LOAD_SECONDS=2 python3 server.py
"""

import json
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Time to answer a request: long enough that some requests are always in flight.
WORK_SECONDS = 0.01

loaded = threading.Event()


class Calls(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/v2/health/live":
            self.answer(200, {"live": True})
        elif self.path == "/v2/health/ready" or self.path.endswith("/ready"):
            self.answer(200 if loaded.is_set() else 503, {"ready": loaded.is_set()})
        else:
            self.answer(404, {"error": f"no page {self.path}"})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.path.endswith("/infer"):
            return self.answer(404, {"error": f"no page {self.path}"})
        if not loaded.is_set():
            return self.answer(503, {"error": "the model is loading"})
        time.sleep(WORK_SECONDS)
        numbers = request["inputs"][0]
        doubled = {**numbers, "name": "OUTPUT0", "data": [2 * number for number in numbers["data"]]}
        said = {"name": "ANSWER", "datatype": "BYTES", "shape": [1], "data": [os.environ.get("ANSWER", "")]}
        self.answer(200, {"model_name": self.path.split("/")[3], "outputs": [doubled, said]})

    def answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def load():
    time.sleep(float(os.environ.get("LOAD_SECONDS", "1")))
    loaded.set()


if __name__ == "__main__":
    # The server exits at once, so requests in flight are lost.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    threading.Thread(target=load, daemon=True).start()
    Server(("", int(os.environ.get("PORT", "8080"))), Calls).serve_forever()
