"""Runs one process and ends it when the parent is gone, however the parent went.

The parent holds the write end of the guard's standard input. When it closes it (a normal stop), or dies (a crash,
`kill -9`, a closed terminal), the guard reads the end of the file, asks its child to stop, insists after a while, and
removes the folder it was given. It ignores Ctrl-C: stopping is the parent's word. Works without any Linux speciality.

    python guard.py [--remove DIR] COMMAND ARG…
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading

PATIENCE_SECONDS = 2


def main(arguments: list[str]) -> int:
    folder = ""
    if arguments[0] == "--remove":
        folder, arguments = arguments[1], arguments[2:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Its own session: a Ctrl-C in the terminal reaches the parent alone.
    child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: _stop(child))
    threading.Thread(target=_stop_at_end_of_input, args=(child,), daemon=True).start()
    exit_code = child.wait()
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    return exit_code if exit_code >= 0 else 128 - exit_code


def _stop_at_end_of_input(child: subprocess.Popen[bytes]) -> None:
    sys.stdin.buffer.read()
    _stop(child)


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    threading.Timer(PATIENCE_SECONDS, child.kill).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
