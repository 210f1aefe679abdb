"""The bill: rows that add up, text that no spreadsheet runs, and corrections of what was counted too early."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_runs.money import Owners
from kubectl_runs.render.export import Prices, correction_rows, corrections, lease_rows, neutral, write
from planner.model import FundingClass, Lease, Payer, Role
from planner.usage import Window
from tests.docs_examples import captured, in_folder

HOUR = 3600
T0 = 1_767_614_400  # 2026-01-05T12:00:00Z
FILES = Path(__file__).parent / "golden" / "files"


def lease(start: int, end: int | None, gpus: int = 8, node: str = "n1") -> Lease:
    return Lease(
        namespace="rai",
        name="l-1-0",
        owner="org:ai:rai",
        run_name="train",
        run_uid="u",
        group=0,
        node=node,
        gpus=gpus,
        role=Role.ACTIVE,
        start_at=start,
        payer=Payer("rai", "west"),
        funding=FundingClass.OWNED,
        closed=end is not None,
        end_at=end,
        closure=None if end is None else "Completed",
    )


def rows(one: Lease, window: Window, price: str = "") -> list[dict[str, Any]]:
    prices = Prices({"rai/west": Decimal(price)} if price else {})
    return list(lease_rows(one, window, Owners(()), prices))


@given(st.integers(0, 5 * HOUR), st.integers(0, 5 * HOUR), st.integers(0, 5 * HOUR), st.integers(1, 16))
def test_export_rows_of_a_lease_add_up_to_its_gpu_seconds(start: int, length: int, cut: int, gpus: int) -> None:
    one = lease(T0 + start, T0 + start + length, gpus)
    middle = T0 + cut
    parts = rows(one, Window(since=None, until=middle)) + rows(one, Window(since=middle, until=T0 + 20 * HOUR))
    assert sum(row["gpuSeconds"] for row in parts) == gpus * length


def test_export_costs_are_exact() -> None:
    (row,) = rows(lease(T0, T0 + 7, gpus=3), Window(since=None, until=T0 + HOUR), price="2.50")
    assert Decimal(row["cost"]) == (Decimal("2.50") * 21 / 3600).quantize(Decimal("1e-10"))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=x", "\r\n=x"])
def test_export_text_that_is_a_formula_gets_a_leading_quote(text: str) -> None:
    out = io.StringIO()
    write(out, "csv", rows(lease(T0, T0 + 60, node=text), Window(since=None, until=T0 + HOUR)), Prices({}))
    (row,) = csv.DictReader(io.StringIO(out.getvalue()))
    assert row["node"] == "'" + text.replace("\t", " ").replace("\r\n", " ")


def test_export_numbers_stay_numbers() -> None:
    assert (neutral(-5), neutral(None), neutral(True), neutral("n-1")) == ("-5", "", "true", "n-1")


def test_export_end_recorded_after_the_last_export_is_taken_back() -> None:
    """Exported at 14:00 as open; at 14:30 its end is recorded as 13:15: 45 minutes were counted too much."""
    one = lease(T0, T0 + HOUR + 900)
    window = Window(since=T0 + 2 * HOUR, until=T0 + 3 * HOUR)
    recorded = {one.key: T0 + 2 * HOUR + 1800}
    (wrong,) = corrections([one], recorded, window, last=T0 + 2 * HOUR)
    taken_back = list(correction_rows(wrong, Owners(()), Prices({"default": Decimal(2)})))
    assert sum(row["gpuSeconds"] for row in taken_back) == -8 * 2700
    assert [Decimal(row["cost"]) for row in taken_back] == [Decimal(-12)]
    counted = rows(one, Window(since=None, until=one.end_at or 0)) + rows(one, window)
    before = rows(lease(T0, None), Window(since=None, until=T0 + 2 * HOUR))
    assert sum(row["gpuSeconds"] for row in before + taken_back) == sum(row["gpuSeconds"] for row in counted)


def test_export_end_recorded_before_the_last_export_needs_no_correction() -> None:
    one = lease(T0, T0 + HOUR)
    window = Window(since=T0 + 2 * HOUR, until=T0 + 3 * HOUR)
    assert corrections([one], {one.key: T0 + HOUR + 5}, window, last=T0 + 2 * HOUR) == []


def test_export_formats_tell_the_same(tmp_path: Path) -> None:
    totals = {}
    with in_folder(tmp_path, sandbox=False):
        for form in ("csv", "jsonl", "focus"):
            command = ["export", "--format", form, "--from", str(FILES / "money.yaml"), "--now", "2026-01-05T14:00:00Z"]
            code, out, err = captured(command)
            assert (code, err) == (0, "")
            if form == "jsonl":
                totals[form] = sum(json.loads(line)["gpuSeconds"] for line in out.splitlines())
            else:
                column = "gpuSeconds" if form == "csv" else "x_GPUSeconds"
                totals[form] = sum(int(row[column]) for row in csv.DictReader(io.StringIO(out)))
    assert len(set(totals.values())) == 1
    assert totals["csv"] == 7 * (3 * HOUR + 1) + 20 * 2 * HOUR + 4 * 5400
