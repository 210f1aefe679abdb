"""Any command line ends in an answer or a complaint, never in a traceback, and only prints what a terminal may see."""

from __future__ import annotations

import shutil
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.docs_examples import captured, in_folder

FILES = Path(__file__).parents[1] / "golden" / "files"
READING = (
    "plan list get explain watch budgets who-pays leases reservations verify doctor export resolve shrink grow submit "
    "cancel settle logs"
)
VERBS = st.sampled_from(READING.split()).map(lambda verb: [verb]) | st.sampled_from(
    [["sponsors", "list"], ["sponsors", "add"], ["snapshot", "show"]]
)
NAMES = st.sampled_from(
    "wide big idea old nope rai nlp rai/wide nlp/fixed l-2-0 lease/l-2-0 org:ai:rai busy.yaml short.yaml".split()
)
VALUES = st.sampled_from(
    ["8", "0", "-1", "1h", "x", "", "2026-01-05T13:00:00Z", "json", "wide", "name", "payer", "csv", "\x1b[2J", "é"]
)
FLAGS = st.sampled_from(
    "-n -A -o -l -v -f --to --by --at --gpus --sponsor --since --until --sort-by --dry-run --dry-run=server --yes "
    "--exit-code --timeout --owner --used-by --budget --open --format --color --draw --all --run --node --no-hints --"
    .split()
)  # fmt: skip
WORDS = st.one_of(NAMES, VALUES, FLAGS)
ALLOWED = {0, 1, 2, 3, 4, 75}


@settings(max_examples=150)
@given(VERBS, st.lists(WORDS, max_size=5))
def test_any_command_line_on_a_file_ends_in_an_answer_or_a_complaint(
    tmp_path_factory: object, verb: list[str], words: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("line")  # type: ignore[attr-defined]
    for name in ("busy.yaml", "short.yaml"):
        shutil.copy(FILES / name, folder / name)
    source = [] if verb == ["snapshot", "show"] else ["--from", "busy.yaml", "--now", "2026-01-05T12:00:00Z"]
    with in_folder(folder, sandbox=False):
        code, out, err = captured([*verb, *source, *words])
    assert code in ALLOWED
    assert "internal error" not in err
    if code == 2:
        assert err.startswith("error: ")
    shown = out + err
    assert all(char.isprintable() or char in "\n\t\x1b" for char in shown)
    assert "\x1b[2J" not in shown
