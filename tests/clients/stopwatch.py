"""Time as far as this machine ran. A shared host stops it for up to seconds, which is no server's doing."""

import threading
import time

# A beat of the clock, in seconds...
BEAT = 0.01
# ... and the most that one counts: a thread that is only not at its turn yet comes within that.
LONGEST_BEAT = 5 * BEAT


class Clock:
    """Counts beats of its own thread: what stops that stops the clock."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counted, self.last = 0.0, time.monotonic()
        threading.Thread(target=self.beat, daemon=True).start()

    def beat(self) -> None:
        while True:
            time.sleep(BEAT)
            self.now()

    def now(self) -> float:
        with self.lock:
            now = time.monotonic()
            self.counted += min(now - self.last, LONGEST_BEAT)
            self.last = now
            return self.counted


CLOCK = Clock()


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self):
        self.began = CLOCK.now()

    def seconds(self) -> float:
        return CLOCK.now() - self.began
