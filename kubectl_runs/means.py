"""What the protocol may not make up itself, for a command: nonces, jitter, and a line on stderr for long waits."""

from __future__ import annotations

import random
import secrets
from typing import TYPE_CHECKING

from kubectl_runs.commit.steps import Means

if TYPE_CHECKING:
    from kubectl_runs.session import Session


def means(session: Session) -> Means:
    """Progress is said once for each new sentence, and only where a person reads it."""
    said = [""]

    def say(text: str) -> None:
        if text != said[0] and session.is_terminal:
            session.note(text)
        said[0] = text

    return Means(nonce=lambda: secrets.token_hex(16), jitter=random.random, say=say)
