"""`python -m bench [--only plan,submit]`: run the benchmarks, print a table, write build/bench.json."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import traceback
from pathlib import Path

from bench.row import Row, table

FOLDER = Path(__file__).parent
HELPERS = ("__init__", "__main__", "row", "arena")


def main() -> int:
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in HELPERS)
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", default=",".join(names), help=f"comma-separated, of {', '.join(names)}")
    parser.add_argument("--json", type=Path, default=FOLDER.parent / "build" / "bench.json", help="where the JSON goes")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name]
    if unknown := sorted(set(chosen) - set(names)):
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    rows, failed = _run(chosen)
    print(table(rows))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    report = {"machine": _machine(), "rows": [row.json() for row in rows]}
    options.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    for name in failed:
        print(f"error: benchmark {name} did not finish", file=sys.stderr)
    return 1 if failed else 0


def _run(names: list[str]) -> tuple[list[Row], list[str]]:
    """Run each module; one that breaks is named at the end and does not stop the others."""
    rows: list[Row] = []
    failed = []
    for name in names:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        try:
            for row in importlib.import_module(f"bench.{name}").rows():
                rows.append(row)
                print(f"  {row.name} {row.size}: {row.value:,.4g} {row.unit}", file=sys.stderr, flush=True)
        except Exception:
            traceback.print_exc()
            failed.append(name)
    return rows, failed


def _machine() -> dict[str, str]:
    return {"python": platform.python_version(), "processor": platform.machine(), "cores": str(os.cpu_count())}


if __name__ == "__main__":
    sys.exit(main())
