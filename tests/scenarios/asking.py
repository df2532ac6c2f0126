"""Functions of the scripts of all beds: requests, checks of their answers, and the time of each step."""

import contextlib
import json
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INPUT = (ROOT / "examples/digits/inputs/digit-7-a.json").read_bytes()
SEVEN = 7
INFER = "/v2/models/digits/infer"


class Failure(Exception):
    """Error with the difference between the promised and the observed behaviour."""


def expect(what, expected, found):
    if found != expected:
        raise Failure(f"{what}: expected {expected!r}, found {found!r}")


def wait_until(what, seconds, check):
    """Waits until `check` returns a true value, and returns that value."""
    until = time.monotonic() + seconds
    while True:
        if found := check():
            return found
        if time.monotonic() > until:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(0.1)


@contextlib.contextmanager
def step(name):
    begun = time.monotonic()
    yield
    print(f"{time.monotonic() - begun:7.2f} s  {name}", flush=True)


def post(url, body=INPUT, headers={}, timeout=60):
    """Sends a request, and returns the revision that answered and the JSON."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.headers["weir-revision"], json.load(answer)
    except urllib.error.HTTPError as error:
        raise Failure(f"{url}: {error.code} {error.read().decode()}") from error
    except OSError as error:
        raise Failure(f"{url}: {error}") from error


def digit(answer):
    return next(output for output in answer["outputs"] if output["name"] == "digit")["data"][0]


def is_seven(answer):
    expect("the digit", SEVEN, digit(answer))


class Traffic:
    """Sends requests in the background, one after the other for each client. It counts the answers by revision and
    records failures. `check` fails for a wrong answer."""

    def __init__(self, url, body=INPUT, check=is_seven, clients=1, headers={}):
        self.url, self.body, self.check, self.revisions, self.failures = url, body, check, Counter(), []
        self.headers = headers
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(clients)]

    def run(self):
        while not self.ended.is_set():
            try:
                revision, answer = post(self.url, self.body, self.headers)
                self.revisions[revision] += 1
                self.check(answer)
            except (Failure, ValueError) as error:
                self.failures.append(str(error))
            time.sleep(0.01)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()


def run(name, parts, prepare, explanation):
    """Runs the parts one after the other, or only those named on the command line. The first failure ends the run, and
    prints `explanation()`."""
    named = sys.argv[1:]
    parts = [part for part in parts if not named or part.__name__ in named]
    begun = time.monotonic()
    try:
        prepare()
        for part in parts:
            part()
    except Failure as failure:
        print(explanation(), file=sys.stderr)
        sys.exit(f"{name}: {failure}")
    print(f"{time.monotonic() - begun:7.2f} s  in all")
