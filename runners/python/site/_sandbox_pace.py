"""How the full driver loads when nobody may ever want what it loads: in small bites, with pauses between them.

Without pauses it takes the sandbox's whole share of a core, and the next program waits for its own. A bite that took
longer than it should have shows that others want the core, and the more they do, the longer the pause is. A program
that wants what is loaded puts an end to the pauses.
"""

from select import POLLIN, poll
from time import monotonic, process_time

BITE = 0.003
SHARE = 1  # the pause after a bite is this many times as long, if nobody else wanted the core
LONGEST = 0.1


class Pace:
    """The pace of a driver that gets requests through this descriptor."""

    def __init__(self, requests):
        self._poll, self._wanted = poll(), False
        self._poll.register(requests, POLLIN)
        self._begin()

    def breathe(self):
        """Pause if it is time. To be called often."""
        worked, used = monotonic() - self._at, process_time() - self._used
        if used < BITE or self._wanted:
            return
        pause = min(worked * SHARE * (worked / used) ** 2, LONGEST)
        self._wanted = bool(self._poll.poll(pause * 1000))
        self._begin()

    def _begin(self):
        self._at, self._used = monotonic(), process_time()
