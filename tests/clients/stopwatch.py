"""Elapsed time without pauses of the machine: a shared host may stop the machine for seconds, which no server causes.
"""

import threading
import time

# Interval of the clock's ticks in seconds.
TICK = 0.01
# Maximum time that one tick counts: a thread that only waits for the processor runs within that time.
MAX_TICK = 5 * TICK


class Clock:
    """A clock that counts the ticks of its own thread, and so stops while the machine is stopped."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counted, self.last = 0.0, time.monotonic()
        threading.Thread(target=self.tick, daemon=True).start()

    def tick(self) -> None:
        while True:
            time.sleep(TICK)
            self.now()

    def now(self) -> float:
        with self.lock:
            now = time.monotonic()
            self.counted += min(now - self.last, MAX_TICK)
            self.last = now
            return self.counted


CLOCK = Clock()


class Stopwatch:
    """Measures the time since it was created."""

    def __init__(self):
        self.start = CLOCK.now()

    def seconds(self) -> float:
        return CLOCK.now() - self.start
