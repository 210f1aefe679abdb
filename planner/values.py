"""Frozen values, made cheaply: a stand-in for `dataclasses.dataclass(frozen=True, slots=True, kw_only=True)`.

The standard decorator compiles six methods for each class, which costs a command more time than all it decides: half
of what `submit` needs to start. Here all methods are plain functions. `replace`, `fields` and equality work as for any
dataclass; type checkers see the standard decorator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "field"]

_SKIPPED = ("__dict__", "__weakref__")


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool, slots: bool, kw_only: bool) -> Callable[[type], type]:
        """Decorates a class of frozen, slotted, keyword-only fields; there is no other kind."""
        assert (frozen, slots, kw_only) == (True, True, True), "values are frozen, slotted and keyword-only"
        return _value


def _value(plain: type) -> type:
    own = _own_fields(plain)
    inherited = {name: part for base in reversed(plain.__mro__[1:]) for name, part in _fields_of(base).items()}
    fields = {**inherited, **own}
    names = tuple(fields)
    body = {key: part for key, part in plain.__dict__.items() if key not in own and key not in _SKIPPED}
    compared = tuple(name for name in names if fields[name].compare)
    setters: dict[str, Callable[[Any, Any], None]] = {}
    hashed = tuple(name for name in compared if fields[name].hash is not False)
    body |= {
        "__slots__": tuple(own),
        "__dataclass_fields__": fields,
        "__match_args__": (),
        "_compared": staticmethod(_getter(compared)),
        "_hashed": staticmethod(_getter(hashed)),
        "__init__": _init_of(fields, setters),
        "__setattr__": _refuse,
        "__delattr__": _refuse,
        "__getstate__": _getstate,
        "__setstate__": _setstate,
    }
    for name, shared in (("__eq__", _eq), ("__hash__", _hash), ("__repr__", _repr)):
        if name not in plain.__dict__:
            body[name] = shared
    made = type(plain)(plain.__name__, plain.__bases__, body)
    made.__qualname__ = plain.__qualname__
    setters.update((name, getattr(made, name).__set__) for name in names)
    return made


def _fields_of(base: type) -> dict[str, Any]:
    found: dict[str, Any] = base.__dict__.get("__dataclass_fields__", {})
    return found


def _own_fields(plain: type) -> dict[str, Any]:
    """The annotated names, in order, each with its default."""
    fields = {}
    annotations: dict[str, Any] = plain.__dict__.get("__annotations__", {})  # noqa: RUF063 - inspect costs 5 ms
    for name, annotation in annotations.items():
        if str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            continue
        given = plain.__dict__.get(name, dataclasses.MISSING)
        part: Any = given if isinstance(given, dataclasses.Field) else field(default=given)
        part.name, part.type, part.kw_only = name, annotation, True
        part._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
        fields[name] = part
    return fields


def _init_of(fields: dict[str, Any], setters: dict[str, Callable[[Any, Any], None]]) -> Callable[..., None]:
    """An `__init__` that compiles nothing; `setters` are filled in once the class has its slots."""
    missing = dataclasses.MISSING
    defaults = {name: part.default for name, part in fields.items() if part.default is not missing}
    makers = {name: part.default_factory for name, part in fields.items() if part.default_factory is not missing}
    required = [name for name in fields if name not in defaults and name not in makers]
    count = len(fields)

    def __init__(self: Any, /, **values: Any) -> None:  # noqa: N807 - it becomes the method
        if len(values) != count:
            if not all(name in values for name in required):
                raise TypeError(f"{type(self).__name__} lacks {[name for name in required if name not in values]}")
            made = {name: make() for name, make in makers.items() if name not in values}
            values = {**defaults, **made, **values}
        try:
            for name, value in values.items():
                setters[name](self, value)
        except KeyError as unknown:
            raise TypeError(f"{type(self).__name__} has no field {unknown}") from None

    return __init__


def _getter(names: tuple[str, ...]) -> Callable[[Any], Any]:
    if len(names) == 1:
        (name,) = names
        return lambda value: (getattr(value, name),)
    return attrgetter(*names) if names else lambda _: ()


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    found: int = self._hashed(self).__hash__()
    return found


def _repr(self: Any) -> str:
    shown = [name for name, part in self.__dataclass_fields__.items() if part.repr]
    parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({parts})"


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r} of a {type(self).__name__}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)
