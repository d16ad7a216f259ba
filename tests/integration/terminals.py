"""A pseudo-terminal for commands that show people something."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading

from tests.waiting import ENDS_S, WITHIN_S


def run_on_terminal(url: str, *arguments: str) -> tuple[str, str]:
    """Run a command of zsched whose stderr is a terminal; return its output, and what the terminal shows."""
    terminal = PseudoTerminal(80, 24)
    command, env = [sys.executable, "-m", "zsched.cli", *arguments], {"ZSCHED_REDIS_URL": url, "TERM": "xterm"}
    done = subprocess.run(
        command, env=os.environ | env, stdout=subprocess.PIPE, stderr=terminal.slave, text=True, timeout=ENDS_S
    )
    terminal.close()
    assert 0 == done.returncode, terminal.everything
    return done.stdout, terminal.everything


class PseudoTerminal:
    """A pseudo-terminal of *columns* by *rows*. ``text``: its output since the last wait; ``everything``: all of it."""

    def __init__(self, columns: int, rows: int) -> None:
        self._master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.text, self.everything, self._changed = "", "", threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        """Return as soon as *text* is written behind the text awaited before."""
        with self._changed:
            found = self._changed.wait_for(lambda: text in self.text, WITHIN_S)
            assert found, f"no {text!r} in {self.text[-2000:]!r}"
            self.text = self.text.partition(text)[2]

    def type(self, text: str) -> None:
        """Send *text* as a person who types it."""
        os.write(self._master, text.encode())

    def close(self) -> str:
        """Return the output since the last wait; the child has ended."""
        os.close(self.slave)
        self._reader.join(WITHIN_S)
        return self.text

    def _read(self) -> None:
        while True:
            try:
                read = os.read(self._master, 65_536)
            except OSError:  # nobody writes any more
                read = b""
            if not read:
                os.close(self._master)
                return
            with self._changed:
                self.text += (new := read.decode(errors="replace"))
                self.everything += new
                self._changed.notify_all()
