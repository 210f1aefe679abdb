"""How text reaches a terminal or a pipe: one sanitiser, one plain table, one rich console.

Every string that came from a server or a file passes `clean` (section 7), so that no node or owner can move the
cursor, hide characters or reverse the reading order. In a pipe tables are plain and never cut; rich is used on a
terminal only, with markup, emoji and highlighting off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

GAP = "   "


def clean(text: object) -> str:
    """One line without control, format, bidi, zero-width and line-separating characters; the rest as it came.

    `str.isprintable` is exactly that line: false for the categories Other and Separator, but for the blank. Other
    blanks (no-break and the like) become a plain one, since dropping them would glue words together.
    """
    line = str(text)
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else " " if char.isspace() and char != "\r" else "" for char in line)


def clean_lines(text: str) -> str:
    """Like `clean`, for text of several lines: line feeds and tabs stay."""
    return "\n".join("\t".join(clean(cell) for cell in line.split("\t")) for line in text.split("\n"))


def table(rows: Iterable[Sequence[object]], *, right: Iterable[int] = (), indent: str = "") -> str:
    """Columns three blanks apart, no trailing blanks, nothing cut; the columns in `right` are numbers."""
    cells = [[clean(cell) for cell in row] for row in rows]
    if not cells:
        return ""
    widths = [max(len(row[column]) for row in cells if column < len(row)) for column in range(max(map(len, cells)))]
    numbers = frozenset(right)
    lines = (
        GAP.join(
            cell.rjust(widths[column]) if column in numbers else cell.ljust(widths[column])
            for column, cell in enumerate(row)
        )
        for row in cells
    )
    return "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)


def plural(count: int, word: str, words: str = "") -> str:
    """`1 GPU`, `8 GPUs`."""
    return f"{count} {word if count == 1 else words or word + 's'}"


def span(seconds: int) -> str:
    """A length of time for people: its two largest units (`7h35m`, `2d4h`, `45s`)."""
    parts: list[str] = []
    rest = abs(seconds)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, rest = divmod(rest, size)
        if count or parts or unit == "s":
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    if len(parts) == 2 and parts[1][:-1] == "0":
        parts.pop()
    return "".join(parts)


MARKS = {"  + ": "32", "  ~ ": "33", "  - ": "31"}  # created green, changed yellow, gone red
BOLD = "1"


def colored(screen: str) -> str:
    """A screen with its marked lines in their colour and its headers bold; nothing but colour is added."""
    return "".join(_colored(line) for line in screen.splitlines(keepends=True))


def _colored(line: str) -> str:
    words = line.split()
    is_header = len(words) > 1 and all(word.isupper() and word[0].isalpha() for word in words[:2])
    code = BOLD if is_header else MARKS.get(line[:4])
    body = line.rstrip("\n")
    return line if code is None else f"\x1b[{code}m{body}\x1b[0m{line[len(body) :]}"


def console(stream: TextIO, *, color: bool, width: int | None = None) -> Console:
    """The only maker of rich consoles: `[spare]` and `:train:` in our data are text, not markup."""
    from rich.console import Console

    return Console(
        file=stream,
        markup=False,
        emoji=False,
        highlight=False,
        width=width,
        no_color=not color,
        color_system="auto" if color else None,
    )
