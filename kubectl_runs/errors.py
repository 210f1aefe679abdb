"""Everything a command may end with instead of its answer: one tree, each with its exit code (section 8).

A message starts in lower case, has no full stop and names the object, what was needed and what there is. The hint is
a command that can be pasted. Refusals of the planner are values, not errors; these are for broken input and for
outcomes that the caller has to hear about.
"""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
NOT_NOW = 3
TIMED_OUT = 4
OUTCOME_UNKNOWN = 75
INTERRUPTED = 130


class RunsError(Exception):
    """Refused or failed."""

    exit_code = FAILED

    def __init__(self, message: str, *, hint: str = "", detail: str = "", exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint  # a command that can be pasted, or what to change
        self.detail = detail  # further lines under the message: the line of a file, a list of objects
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(RunsError):
    """The command line itself is wrong."""

    exit_code = USAGE


class TimedOut(RunsError):
    """What was waited for did not happen in the time given."""

    exit_code = TIMED_OUT


class OutcomeUnknown(RunsError):
    """A write whose reply was lost and could not be read back (6.4): never called failed."""

    exit_code = OUTCOME_UNKNOWN


class NotFoundError(RunsError):
    """The object that was named does not exist."""


class WireError(RunsError):
    """An object that cannot be read: which one, where in it, and why."""

    def __init__(self, *, object: str, path: str, problem: str, file: str = "") -> None:  # noqa: A002
        self.object = object  # "Run rai/train"
        self.path = path  # "spec.resources.totalGPUs"
        self.problem = problem
        self.file = file
        place = f"{object}: {path}: " if path else f"{object}: "
        super().__init__(f"{file}: {place}{problem}" if file else f"{place}{problem}")


class ManifestError(RunsError):
    """A file that cannot be read, with line and column and the line itself."""
