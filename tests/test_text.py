"""What reaches a terminal: every string survives that may, and nothing else does."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_runs.text import clean, clean_lines, console, span, table

PRINTABLE = st.text(alphabet=st.characters(blacklist_categories=("C", "Z")), max_size=30)


@given(PRINTABLE)
def test_clean_of_a_harmless_string_changes_nothing(text: str) -> None:
    assert clean(text) == text


@given(st.text(max_size=40))
def test_clean_of_any_string_leaves_nothing_that_moves_hides_or_reverses(text: str) -> None:
    cleaned = clean(text)
    assert not [char for char in cleaned if unicodedata.category(char)[0] == "C" or char in "\u2028\u2029"]
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("n1\x1b[2Jx", "n1[2Jx"),
        ("good\rbad", "goodbad"),
        ("a\u202eb\u200bc\ufeffd", "abcd"),
        ("a\x9bb\x85c", "ab c"),
        ("two\nlines\tand\u00a0more", "two lines and more"),
        ("org:train:x[spare][/foo]", "org:train:x[spare][/foo]"),
    ],
)
def test_clean_of_hostile_strings(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_clean_lines_keeps_lines_and_tabs() -> None:
    assert clean_lines("a\x1bb\n\tc\r\n") == "ab\n\tc\n"


@settings(max_examples=100)
@given(PRINTABLE.filter(bool), PRINTABLE.filter(bool))
def test_any_owner_and_node_survive_a_rich_console(owner: str, node: str) -> None:
    """Markup, emoji and highlighting are off: `[spare]` and `:train:` are text."""
    from rich.text import Text

    out = io.StringIO()
    console(out, color=False, width=500).print(Text(f"{owner} {node}"))
    assert out.getvalue().rstrip("\n").rstrip() == f"{owner} {node}".rstrip()


def test_rich_console_prints_markup_and_emoji_names_as_they_are() -> None:
    out = io.StringIO()
    console(out, color=False, width=200).print("org:train:x a[spare]b [/foo]")
    assert out.getvalue() == "org:train:x a[spare]b [/foo]\n"


@settings(max_examples=30)
@given(st.lists(st.tuples(PRINTABLE, PRINTABLE, st.integers(0, 10**6)), min_size=1, max_size=5))
def test_table_cuts_nothing_and_leaves_no_blanks_at_the_end(rows: list[tuple[str, str, int]]) -> None:
    lines = table(rows, right=(2,)).split("\n")[:-1]
    assert len(lines) == len(rows)
    for (first, second, number), line in zip(rows, lines, strict=True):
        assert line.startswith(first)
        assert second in line
        assert line.endswith(str(number))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0s"), (45, "45s"), (60, "1m"), (61, "1m1s"), (3600, "1h"), (27300, "7h35m"), (187200, "2d4h")],
)
def test_span_shows_the_two_largest_units(seconds: int, words: str) -> None:
    assert span(seconds) == words
