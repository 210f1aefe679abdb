"""The house rules that no linter knows, run as tests.

Each test lists what breaks its rule, with file and line. Exceptions stand in the two ratchet tables: an entry may only
shrink, and a test says when it is no longer needed.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLANNER = sorted((ROOT / "planner").rglob("*.py"))
PLUGIN = sorted((ROOT / "kubectl_runs").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
CODE = [*PLANNER, *PLUGIN, *TESTS, *sorted((ROOT / "bench").rglob("*.py"))]

FILE_LINES_MAX = 350
TEST_FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
LONGER_FILES: dict[str, int] = {}
LONGER_FUNCTIONS: dict[str, int] = {}

# Section 5 of the design: every rule stands in a comment or docstring of the code that obeys it, and in a test.
RULES = (
    *(f"C{n}" for n in range(1, 9)),
    *(f"P{n}" for n in range(1, 6)),
    *(f"F{n}" for n in range(1, 6)),
    *(f"R{n}" for n in range(1, 7)),
    *("E1", "E2", "O1", "S1", "S2", "S3"),
)

# The pure parts of the standard library; the planner gets everything else as an argument.
PLANNER_IMPORTS = frozenset(
    "__future__ bisect collections dataclasses enum fnmatch fractions functools hashlib heapq itertools json math "
    "operator planner re typing".split()
)
PLANNER_CALLS = frozenset("breakpoint eval exec float hash id input open print".split())
ORDERED_BY = frozenset("sorted sum any all len min max set frozenset dict Counter".split())


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def where(path: Path, node: ast.AST, what: str) -> str:
    return f"{name_of(path)}:{getattr(node, 'lineno', 0)}: {what}"


def tracked_files() -> list[Path]:
    """What git tracks and still exists."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


# ---- the planner is pure ----


def test_planner_imports_only_pure_modules() -> None:
    found = [where(path, node, name) for path in PLANNER for node, name in imports(path) if name not in PLANNER_IMPORTS]
    assert found == []


def imports(path: Path) -> Iterator[tuple[ast.AST, str]]:
    """Every top-level package that a file imports."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, (node.module or ".").split(".")[0]


def test_planner_calls_nothing_impure() -> None:
    found = [
        where(path, node, node.func.id)
        for path in PLANNER
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PLANNER_CALLS
    ]
    assert found == []


def test_planner_counts_in_whole_numbers() -> None:
    """GPUs and seconds are integers: no float constants, no true division."""
    found = []
    for path in PLANNER:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                found.append(where(path, node, f"float {node.value}"))
            if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
                found.append(where(path, node, "true division"))
    assert found == []


def test_planner_never_iterates_over_a_set() -> None:
    """The order of a set follows from hashes: whatever is walked is sorted, or a dict."""
    found = [where(path, node, "walks a set") for path in PLANNER for node in set_iterations(path.read_text())]
    assert found == []


def set_iterations(text: str) -> Iterator[ast.AST]:
    tree = ast.parse(text)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        names = set_names(function)
        for node in ast.walk(function):
            for walked in walked_by(node):
                if is_set(walked, names) and not order_is_lost(node, parents):
                    yield walked


def set_names(function: ast.FunctionDef) -> set[str]:
    """Local names that are bound to a set, by value or by annotation."""
    names = {
        argument.arg
        for argument in (*function.args.args, *function.args.kwonlyargs)
        if argument.annotation is not None and is_set_type(argument.annotation)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and is_set(node.value, set()):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and is_set_type(node.annotation):
            names.add(node.target.id)
    return names


def is_set_type(annotation: ast.expr) -> bool:
    named = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return isinstance(named, ast.Name) and named.id in {"set", "frozenset"}


def is_set(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"set", "frozenset"}
    return isinstance(node, ast.Set | ast.SetComp) or (isinstance(node, ast.Name) and node.id in names)


def walked_by(node: ast.AST) -> list[ast.expr]:
    """The expressions whose order this node sees."""
    if isinstance(node, ast.For | ast.comprehension):
        return [node.iter]
    if isinstance(node, ast.Starred):
        return [node.value]
    walks = isinstance(node, ast.Call) and (
        (isinstance(node.func, ast.Name) and node.func.id in {"list", "tuple", "enumerate", "iter", "next", "map"})
        or (isinstance(node.func, ast.Attribute) and node.func.attr in {"join", "extend"})
    )
    return list(node.args) if walks and isinstance(node, ast.Call) else []


def order_is_lost(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """What makes a set, or feeds `sorted` or a sum, does not show the order in which it walked."""
    owner: ast.AST | None = node
    while isinstance(owner, ast.comprehension | ast.Starred | ast.Tuple | ast.List):
        owner = parents.get(owner)
    if isinstance(owner, ast.SetComp | ast.Set):
        return True
    user = owner if owner is not node and isinstance(owner, ast.Call) else parents.get(owner) if owner else None
    return isinstance(user, ast.Call) and isinstance(user.func, ast.Name) and user.func.id in ORDERED_BY


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("for x in {1, 2}: pass", True),
        ("s = set(a); y = [x for x in s]", True),
        ("s: set[int] = f(); list(s)", True),
        ("','.join({1})", True),
        ("for x in sorted({1, 2}): pass", False),
        ("s = set(a); y = sum(x for x in s)", False),
        ("s = {x for x in set(a)}", False),
        ("len({1})", False),
        ("s = set(a); y = {x for x in (*s, 1)}", False),
        ("s = set(a); y = [x for x in (*s, 1)]", True),
        ("s = set(a); y = sorted([*s, 1])", False),
        ("s = set(a); y = (*s, 1)", True),
    ],
)
def test_set_iteration_check_finds_what_it_should(line: str, found: bool) -> None:
    assert bool(list(set_iterations(f"def f(a):\n    {line}\n"))) == found


# ---- rules, sizes, docs ----


@pytest.mark.parametrize("rule", RULES)
def test_rule_of_the_design_stands_in_code_and_in_a_test(rule: str) -> None:
    pattern = re.compile(rf"(?<![A-Za-z0-9]){rule}(?![0-9A-Za-z])")
    tests = [path for path in TESTS if path != Path(__file__)] + sorted((ROOT / "tests" / "cases").glob("*.yaml"))
    assert any(pattern.search(prose_of(path)) for path in (*PLANNER, *PLUGIN)), f"{rule} stands over no line of code"
    assert any(pattern.search(path.read_text()) for path in tests), f"{rule} stands in no test"


def prose_of(path: Path) -> str:
    """The comments and docstrings of a file: everything but its code."""
    text = path.read_text()
    comments = re.findall(r"#[^\n]*", text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    strings = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    return "\n".join([*comments, *strings])


def test_files_are_short() -> None:
    lines = {name_of(path): len(path.read_text().splitlines()) for path in CODE}
    allowed = {name: max(lines_max(name), LONGER_FILES.get(name, 0)) for name in lines}
    assert {name: count for name, count in lines.items() if count > allowed[name]} == {}
    assert [name for name in LONGER_FILES if lines.get(name, 0) <= lines_max(name)] == [], "no longer needed"


def lines_max(name: str) -> int:
    return TEST_FILE_LINES_MAX if name.startswith("tests/") else FILE_LINES_MAX


def test_functions_are_short() -> None:
    lines = {f"{name_of(path)}::{name}": count for path in CODE for name, count in function_lines(path)}
    long = {
        name: count for name, count in lines.items() if count > max(FUNCTION_LINES_MAX, LONGER_FUNCTIONS.get(name, 0))
    }
    assert long == {}
    assert [name for name in LONGER_FUNCTIONS if lines.get(name, 0) <= FUNCTION_LINES_MAX] == [], "no longer needed"


def function_lines(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_every_module_says_what_it_is_for() -> None:
    silent = [name_of(path) for path in (*PLANNER, *PLUGIN) if path.read_text().strip() and not has_docstring(path)]
    assert silent == []


def has_docstring(path: Path) -> bool:
    return ast.get_docstring(tree_of(path)) is not None


def test_every_command_has_a_page() -> None:
    from kubectl_runs.main import VERBS

    pages = {path.stem for path in (ROOT / "docs" / "cli").glob("*.md")}
    assert sorted(set(VERBS) - pages) == []
    assert sorted(pages - set(VERBS) - {"README", "index"}) == []


def test_every_command_has_its_module() -> None:
    from kubectl_runs.main import VERBS

    assert [verb.name for verb in VERBS.values() if not (ROOT / f"{verb.path.replace('.', '/')}.py").exists()] == []


# ---- what must not be in the tree ----

# Written apart, so that this file does not find itself.
FORBIDDEN = {
    "a package registry's address": "|".join(
        ("pypi" + r"\.org", "python" + "hosted", r"proxy\." + "golang", r"registry\." + "npmjs", "--index" + "-url")
    ),
    "a home folder": "|".join(("/ho" + r"me/[a-z]", "/ro" + "ot/", "/Use" + r"rs/[A-Za-z]")),
    "a path of one machine": "|".join(("/wo" + "rk/", r"\.\./sha" + "red/")),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_tracked_file_names(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = []
    for path in tracked_files():
        text = path.read_bytes().decode("utf-8", errors="ignore")
        found += [f"{name_of(path)}: {match.group()}" for match in pattern.finditer(text)]
    assert found == []


def test_nothing_is_skipped_without_a_reason() -> None:
    found = [
        where(path, node, "no reason") for path in TESTS for node in ast.walk(tree_of(path)) if skips_silently(node)
    ]
    assert found == []


def skips_silently(node: ast.AST) -> bool:
    """A skip or xfail, as a call or as a bare mark, that says no reason."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return any(isinstance(mark, ast.Attribute) and mark.attr in {"skip", "xfail"} for mark in node.decorator_list)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr not in {"skip", "skipif", "xfail", "importorskip"}:
        return False
    said = node.func.attr == "skip" and bool(node.args)
    return not said and not any(word.arg == "reason" for word in node.keywords)
