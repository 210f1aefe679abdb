"""Chargeback rows as CSV, JSON lines or FOCUS columns.

A row is a lease's use in one hour of UTC. Prices are decimal text and costs are exact: a price a GPU-hour times
GPU-seconds, kept as a fraction until it is written with as many digits as it needs, at most ten.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, TextIO

from kubectl_runs.errors import ManifestError
from kubectl_runs.text import clean
from kubectl_runs.wire.times import rfc3339
from planner.usage import HOUR, Window, pieces

if TYPE_CHECKING:
    from kubectl_runs.money import Owners
    from planner.model import Lease

Row = dict[str, Any]
FORMULA = ("=", "+", "-", "@")
CURRENCY = "USD"
DIGITS = Decimal("0.0000000001")


@dataclass(frozen=True, slots=True)
class Prices:
    """What a GPU-hour costs, by `budget/envelope`, by flavor, or for all (`default`)."""

    by_name: Mapping[str, Decimal]
    currency: str = CURRENCY

    @classmethod
    def read(cls, file: str) -> Prices:
        """A mapping of names to prices; `currency` names the currency."""
        from kubectl_runs.wire import manifest, yaml

        documents = list(yaml.documents(manifest.text_of(file), file, marks=False))
        value = documents[0].value if len(documents) == 1 else None
        if not isinstance(value, dict):
            raise ManifestError(f"{file}: rates are a mapping of flavor or budget/envelope to a price")
        currency = str(value.pop("currency", CURRENCY))
        return cls({str(name): _price(file, name, price) for name, price in value.items()}, currency)

    def of(self, payer: str, flavor: str) -> Decimal | None:
        for name in (payer, flavor, "default"):
            if name in self.by_name:
                return self.by_name[name]
        return None


def _price(file: str, name: object, price: object) -> Decimal:
    try:
        made = Decimal(str(price))
    except InvalidOperation:
        made = Decimal(-1)
    if isinstance(price, bool) or not made.is_finite() or made < 0:
        raise ManifestError(f"{file}: {name}: {price!r} is no price such as 2.50")
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Seconds that an earlier export counted for an open lease which, as was recorded since, had ended before."""

    lease: Lease
    start_at: int
    end_at: int


def corrections(leases: Iterable[Lease], recorded: Mapping[str, int], window: Window, last: int) -> list[Correction]:
    """What the export made at `last`, whose window ended where this one begins, counted too much.

    `recorded` says when the end of a lease was recorded. An end recorded later than that export may lie before it,
    since a GPU is freed only when somebody looks (6.6).
    """
    counted_until = last if window.since is None else min(last, window.since)
    return [
        Correction(lease=lease, start_at=lease.end_at, end_at=counted_until)
        for lease in leases
        if lease.end_at is not None and lease.end_at < counted_until and recorded.get(lease.key, 0) > last
    ]


def write(out: TextIO, form: str, rows: Iterable[Row], prices: Prices) -> None:
    if form == "jsonl":
        for row in rows:
            out.write(json.dumps({key: value for key, value in row.items() if value is not None}) + "\n")
        return
    import csv

    columns = FOCUS if form == "focus" else {name: name for name in PLAIN}
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        focus = {**row, **_focus(row, prices)}
        writer.writerow([neutral(focus.get(name)) for name in columns.values()])


def lease_rows(lease: Lease, window: Window, owners: Owners, prices: Prices) -> Iterator[Row]:
    """One row for each hour that the lease touches inside the window."""
    return _rows(lease, *window.part(lease), owners, prices)


def correction_rows(correction: Correction, owners: Owners, prices: Prices) -> Iterator[Row]:
    """The same hours once more, taken back."""
    for row in _rows(correction.lease, correction.start_at, correction.end_at, owners, prices):
        cost = None if row["cost"] is None else spell(-Decimal(row["cost"]))
        yield {**row, "gpuSeconds": -row["gpuSeconds"], "cost": cost, "correction": True}


def _rows(lease: Lease, start: int, end: int, owners: Owners, prices: Prices) -> Iterator[Row]:
    flavor = owners.flavor(lease.payer)
    price = prices.of(lease.payer.name, flavor)
    for first, last in pieces(start, end, HOUR):
        seconds = lease.gpus * (last - first)
        yield {
            "hour": rfc3339(first - first % HOUR),
            "start": rfc3339(first),
            "end": rfc3339(last),
            "namespace": lease.namespace,
            "run": lease.run_name,
            "lease": lease.name,
            "usedBy": lease.owner,
            "payer": owners.of(lease.payer),
            "budget": lease.payer.budget,
            "envelope": lease.payer.envelope,
            "class": str(lease.funding),
            "role": str(lease.role),
            "flavor": flavor or None,
            "node": lease.node,
            "gpus": lease.gpus,
            "gpuSeconds": seconds,
            "open": not lease.closed,
            "correction": False,
            "closureReason": lease.closure,
            "price": None if price is None else str(price),
            "cost": None if price is None else spell(price * seconds / HOUR),
        }


def spell(amount: Decimal) -> str:
    """A decimal with the digits it needs, at most ten."""
    short = amount.quantize(DIGITS, rounding=ROUND_HALF_EVEN).normalize()
    return format(short, "f")


def neutral(value: object) -> str:
    """Text that a spreadsheet would run as a formula gets a leading quote; numbers stay numbers, control goes."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = clean(value)
    return f"'{text}" if text.lstrip().startswith(FORMULA) else text


PLAIN = (
    *("hour", "start", "end", "namespace", "run", "lease", "usedBy", "payer", "budget", "envelope", "class", "role"),
    *("flavor", "node", "gpus", "gpuSeconds", "open", "correction", "closureReason", "price", "cost"),
)

# Columns of FOCUS 1.2 that we can fill; our own begin with x_, as the specification wants.
FOCUS = {
    "BillingPeriodStart": "month",
    "BillingPeriodEnd": "nextMonth",
    "ChargePeriodStart": "start",
    "ChargePeriodEnd": "end",
    "ChargeCategory": "category",
    "ChargeClass": "chargeClass",
    "ChargeDescription": "description",
    "ChargeFrequency": "frequency",
    "BilledCost": "cost0",
    "EffectiveCost": "cost0",
    "ListCost": "cost0",
    "ContractedCost": "cost0",
    "BillingCurrency": "currency",
    "BillingAccountId": "budget",
    "BillingAccountName": "payer",
    "SubAccountId": "envelope",
    "SubAccountName": "envelope",
    "ConsumedQuantity": "hours",
    "ConsumedUnit": "unit",
    "PricingQuantity": "hours",
    "PricingUnit": "unit",
    "ListUnitPrice": "price",
    "ContractedUnitPrice": "price",
    "ResourceId": "resource",
    "ResourceName": "run",
    "ResourceType": "resourceType",
    "ServiceName": "service",
    "ServiceCategory": "serviceCategory",
    "RegionId": "region",
    "SkuId": "flavor",
    "x_Lease": "lease",
    "x_Namespace": "namespace",
    "x_UsedBy": "usedBy",
    "x_Class": "class",
    "x_Role": "role",
    "x_Node": "node",
    "x_GPUs": "gpus",
    "x_GPUSeconds": "gpuSeconds",
    "x_ClosureReason": "closureReason",
}


def _focus(row: Row, prices: Prices) -> Row:
    year, month = int(row["hour"][:4]), int(row["hour"][5:7])
    after = f"{year + month // 12:04d}-{month % 12 + 1:02d}-01T00:00:00Z"
    return {
        "month": f"{row['hour'][:7]}-01T00:00:00Z",
        "nextMonth": after,
        "category": "Usage",
        "chargeClass": "Correction" if row["correction"] else None,
        "description": f"{row['gpus']} GPUs of {row['flavor'] or 'unknown flavor'} for {row['run']}, {row['class']}",
        "frequency": "Usage-Based",
        "cost0": row["cost"] or "0",
        "currency": prices.currency,
        "hours": spell(Decimal(row["gpuSeconds"]) / HOUR),
        "unit": "GPU-Hours",
        "resource": f"{row['namespace']}/{row['run']}",
        "resourceType": "Run",
        "service": "kubectl runs",
        "serviceCategory": "Compute",
        "region": None,
    }
