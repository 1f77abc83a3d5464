"""A fold that means something else has another fingerprint, wherever it has changed; the same the same."""

from __future__ import annotations

import functools
import importlib
import operator
import os
import subprocess
import sys
import types
from dataclasses import dataclass, field, make_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import AfterValidator, BaseModel, Field

from headwater.events import Aggregate, BlockingApplication, upcaster
from headwater.events.history import Reader
from headwater.events.snapshots import Snapshots
from tests.events import bank

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Add:
    amount: int


@dataclass(frozen=True)
class Added:
    amount: int


def decide(state: Any, command: Any) -> Any:
    return Added(command.amount)


def folded(apply: Any, **options: Any) -> str:
    initial = options.pop("initial", 0)
    events = options.pop("events", [Added])
    return Aggregate("sums", initial, decide, apply, [Add], events, **options).fingerprint


def plus(state: int, event: Added) -> int:
    return state + event.amount


def written(source: str, **around: Any) -> Any:
    """`apply` of a module with this source."""
    module = types.ModuleType("rules_of_a_program")
    vars(module).update(around)
    exec(compile(source, "rules.py", "exec"), vars(module))
    return vars(module)["apply"]


# Each pair: two sources of `apply` that differ somewhere behind it.
CODE = {
    "its own code": ("def apply(s, e): return s + 1", "def apply(s, e): return s - 1"),
    "a constant": ("def apply(s, e): return s + 1", "def apply(s, e): return s + 2"),
    "a default": ("def apply(s, e, by=1): return s + by", "def apply(s, e, by=2): return s + by"),
    "a keyword's default": (
        "def apply(s, e, *, by=1): return s + by",
        "def apply(s, e, *, by=2): return s + by",
    ),
    "a nested function": (
        "def apply(s, e):\n def f(x): return x + 1\n return f(s)",
        "def apply(s, e):\n def f(x): return x + 2\n return f(s)",
    ),
    "a lambda in a comprehension": (
        "def apply(s, e): return [(lambda x: x + 1)(y) for y in s]",
        "def apply(s, e): return [(lambda x: x + 2)(y) for y in s]",
    ),
    "a helper": (
        "def f(x): return x + 1\ndef apply(s, e): return f(s)",
        "def f(x): return x + 2\ndef apply(s, e): return f(s)",
    ),
    "a helper's helper": (
        "def g(x): return 1\ndef f(x): return g(x)\ndef apply(s, e): return f(s)",
        "def g(x): return 2\ndef f(x): return g(x)\ndef apply(s, e): return f(s)",
    ),
    "a global constant": (
        "RATE = 1\ndef apply(s, e): return s * RATE",
        "RATE = 2\ndef apply(s, e): return s * RATE",
    ),
    "a table": (
        "RATES = {'a': [1, 2]}\ndef apply(s, e): return s * RATES['a'][0]",
        "RATES = {'a': [1, 3]}\ndef apply(s, e): return s * RATES['a'][0]",
    ),
    "a closure": (
        "def make(by):\n def apply(s, e): return s + by\n return apply\napply = make(1)",
        "def make(by):\n def apply(s, e): return s + by\n return apply\napply = make(2)",
    ),
    "a function in a closure": (
        "def make(f):\n return lambda s, e: f(s)\napply = make(lambda x: x + 1)",
        "def make(f):\n return lambda s, e: f(s)\napply = make(lambda x: x + 2)",
    ),
    "a decorator's inside": (
        "import functools\n@functools.lru_cache\ndef apply(s, e): return s + 1",
        "import functools\n@functools.lru_cache\ndef apply(s, e): return s + 2",
    ),
    "a partial's argument": (
        "import functools\ndef f(by, s, e): return s + by\napply = functools.partial(f, 1)",
        "import functools\ndef f(by, s, e): return s + by\napply = functools.partial(f, 2)",
    ),
    "a callable object's code": (
        "class Fold:\n def __call__(self, s, e): return s + 1\napply = Fold()",
        "class Fold:\n def __call__(self, s, e): return s + 2\napply = Fold()",
    ),
    "a callable object's attribute": (
        "class Fold:\n def __init__(self, by): self.by = by\n"
        " def __call__(self, s, e): return s + self.by\napply = Fold(1)",
        "class Fold:\n def __init__(self, by): self.by = by\n"
        " def __call__(self, s, e): return s + self.by\napply = Fold(2)",
    ),
    "an inherited method": (
        "class Base:\n def f(self, s): return 1\n"
        "class Fold(Base):\n def apply(self, s, e): return self.f(s)\napply = Fold().apply",
        "class Base:\n def f(self, s): return 2\n"
        "class Fold(Base):\n def apply(self, s, e): return self.f(s)\napply = Fold().apply",
    ),
    "a class method": (
        "class Fold:\n @classmethod\n def apply(cls, s, e): return 1\napply = Fold.apply",
        "class Fold:\n @classmethod\n def apply(cls, s, e): return 2\napply = Fold.apply",
    ),
    "a property of a class that it makes": (
        "class S:\n @property\n def f(self): return 1\ndef apply(s, e): return S().f",
        "class S:\n @property\n def f(self): return 2\ndef apply(s, e): return S().f",
    ),
    "a constant of a class": (
        "class R:\n _RATE = 1\ndef apply(s, e): return s * R._RATE",
        "class R:\n _RATE = 2\ndef apply(s, e): return s * R._RATE",
    ),
    "a cached property": (
        "import functools\nclass R:\n @functools.cached_property\n def f(self): return 1\n"
        "def apply(s, e): return R().f",
        "import functools\nclass R:\n @functools.cached_property\n def f(self): return 2\n"
        "def apply(s, e): return R().f",
    ),
    "a cached function in a class": (
        "import functools\nclass R:\n @staticmethod\n @functools.lru_cache\n def f(x): return 1\n"
        "def apply(s, e): return s * R.f(2)",
        "import functools\nclass R:\n @staticmethod\n @functools.lru_cache\n def f(x): return 2\n"
        "def apply(s, e): return s * R.f(2)",
    ),
    "a cached method": (
        "import functools\nclass R:\n @functools.cache\n def f(self): return 1\n"
        "def apply(s, e): return s * R().f()",
        "import functools\nclass R:\n @functools.cache\n def f(self): return 2\n"
        "def apply(s, e): return s * R().f()",
    ),
    "which parameter is which": (
        "def f(a, b): return a - b\ndef apply(s, e): return f(a=s, b=e)",
        "def f(b, a): return b - a\ndef apply(s, e): return f(a=s, b=e)",
    ),
    "a function for one type of event": (
        "import functools\n@functools.singledispatch\ndef on(e, s): return s\n"
        "@on.register(int)\ndef _(e, s): return s + 1\ndef apply(s, e): return on(e, s)",
        "import functools\n@functools.singledispatch\ndef on(e, s): return s\n"
        "@on.register(int)\ndef _(e, s): return s + 2\ndef apply(s, e): return on(e, s)",
    ),
    "the function for all other events": (
        "import functools\n@functools.singledispatch\ndef on(e, s): return 1\n"
        "def apply(s, e): return on(e, s)",
        "import functools\n@functools.singledispatch\ndef on(e, s): return 2\n"
        "def apply(s, e): return on(e, s)",
    ),
    "a method for one type of event": (
        "import functools\nclass R:\n @functools.singledispatchmethod\n def on(self, e): return 0\n"
        " @on.register(int)\n def _(self, e): return 1\n"
        " @on.register(str)\n def _(self, e): return 0\ndef apply(s, e): return R().on(e)",
        "import functools\nclass R:\n @functools.singledispatchmethod\n def on(self, e): return 0\n"
        " @on.register(int)\n def _(self, e): return 2\n"
        " @on.register(str)\n def _(self, e): return 0\ndef apply(s, e): return R().on(e)",
    ),
    "what an object around a function has": (
        "import functools\nclass By:\n def __init__(self, f, by):\n"
        "  functools.update_wrapper(self, f)\n  self.by = by\n"
        " def __call__(self, s, e): return s * self.by\napply = By(lambda s, e: s, 1)",
        "import functools\nclass By:\n def __init__(self, f, by):\n"
        "  functools.update_wrapper(self, f)\n  self.by = by\n"
        " def __call__(self, s, e): return s * self.by\napply = By(lambda s, e: s, 2)",
    ),
    "what is tried": (
        "def apply(s, e):\n try:\n  a = s.a()\n  b = s.b()\n except KeyError:\n  return s\n return b",
        "def apply(s, e):\n try:\n  a = s.a()\n except KeyError:\n  return s\n else:\n  b = s.b()\n"
        " return b",
    ),
    "the table of a method in C": (
        "rate = {'a': 1}.get\ndef apply(s, e): return s * rate('a')",
        "rate = {'a': 2}.get\ndef apply(s, e): return s * rate('a')",
    ),
    "a function that names itself": (
        "def apply(s, e): return apply(s - 1, e) if s else 1",
        "def apply(s, e): return apply(s - 1, e) if s else 2",
    ),
}


@pytest.mark.parametrize("where", CODE)
def test_changed_code_is_another_fold(where: str):
    before, after = CODE[where]
    assert folded(written(before)) == folded(written(before)) != ""
    assert folded(written(before)) != folded(written(after))


def test_a_helper_in_another_module_of_the_program_counts():
    def using(source: str) -> Any:
        rules = types.ModuleType("rules")
        exec(source, vars(rules))
        return written("def apply(s, e): return rules.f(s)", rules=rules)

    one, two = using("def f(x): return x + 1"), using("def f(x): return x + 2")
    assert folded(one) != folded(two)


@pytest.mark.parametrize(
    "source",
    [
        "import a_shop.rates\ndef apply(s, e): return s * a_shop.rates.RATE",
        "def apply(s, e):\n from a_shop.rates import RATE\n return s * RATE",
        "def apply(s, e):\n import a_shop.rates\n return s * a_shop.rates.RATE",
        "def apply(s, e):\n from .rates import RATE\n return s * RATE",
        "def apply(s, e):\n from . import rates\n return s * rates.RATE",
    ],
)
def test_a_constant_in_a_module_of_a_package_counts(source: str, monkeypatch: pytest.MonkeyPatch):
    package, rates = types.ModuleType("a_shop"), types.ModuleType("a_shop.rates")
    vars(package).update(rates=rates, __path__=[])
    vars(rates).update(RATE=1, a_shop=package)
    monkeypatch.setitem(sys.modules, "a_shop", package)
    monkeypatch.setitem(sys.modules, "a_shop.rates", rates)
    one = folded(written(source, __package__="a_shop"))
    assert one == folded(written(source, __package__="a_shop")) != ""
    vars(rates)["RATE"] = 2
    assert one != folded(written(source, __package__="a_shop"))


def test_a_program_that_is_installed_is_looked_into_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = tmp_path / "site-packages"
    for package in ("an_installed_shop", "a_library"):
        (place / package).mkdir(parents=True)
    (place / "an_installed_shop" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(place))

    def installed(rate: int, other: int = 1) -> str:
        source = f"import a_library\nRATE = {rate}\ndef apply(s, e): return a_library.f(s * RATE)"
        (place / "an_installed_shop" / "rules.py").write_text(source)
        (place / "a_library" / "__init__.py").write_text(f"def f(x): return x * {other}")
        for each in ("a_library", "an_installed_shop", "an_installed_shop.rules"):
            sys.modules.pop(each, None)
        importlib.invalidate_caches()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "dont_write_bytecode", True)
            return folded(importlib.import_module("an_installed_shop.rules").apply)

    assert installed(1) == installed(1) != ""
    assert installed(1) != installed(2)
    assert installed(1) == installed(1, other=2)  # of others: by its name


def test_what_a_function_imports_and_nobody_knows_yet_makes_no_snapshots():
    def importing(module: str, **options: Any) -> str:
        return folded(written(f"def apply(s, e):\n import {module}\n return s"), **options)

    assert importing("a_shop_of_tomorrow.rates") == ""
    assert importing("a_shop_of_tomorrow.rates", fold=1) != ""
    assert importing("antigravity") != "" != importing("_pytest.an_unknown_module")
    assert "antigravity" not in sys.modules


def test_a_mended_upcaster_is_another_fold_also_behind_a_closure():
    def by(factor: int) -> Any:
        @upcaster("Added", 1)
        def change(data: dict[str, Any]) -> dict[str, Any]:
            return {**data, "amount": data["amount"] * factor}

        return change

    assert folded(plus, upcasters=[by(10)]) == folded(plus, upcasters=[by(10)])
    assert folded(plus, upcasters=[by(10)]) != folded(plus, upcasters=[by(100)])
    assert folded(plus) != folded(plus, upcasters=[by(10)])


class Colour(Enum):
    RED = 1


class OtherColour(Enum):
    RED = 2


OtherColour.__qualname__ = Colour.__qualname__


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (make_dataclass("S", [("a", int, 0)]), make_dataclass("S", [("a", str, 0)])),
        (make_dataclass("S", [("a", int, 0)]), make_dataclass("S", [("a", int, 1)])),
        (make_dataclass("S", [("a", int, 0)]), make_dataclass("S", [("b", int, 0)])),
        (
            make_dataclass("S", [("a", list, field(default_factory=list))]),
            make_dataclass("S", [("a", list, field(default_factory=lambda: [1]))]),
        ),
        (  # inherited
            make_dataclass("S", [], bases=(make_dataclass("B", [("a", int, 0)]),)),
            make_dataclass("S", [], bases=(make_dataclass("B", [("a", float, 0)]),)),
        ),
        (  # nested, in an optional list
            make_dataclass("S", [("a", list[make_dataclass("N", [("x", int, 0)])] | None, None)]),
            make_dataclass("S", [("a", list[make_dataclass("N", [("x", int, 1)])] | None, None)]),
        ),
        (
            msgspec.defstruct("S", [("a", int, 0)], module=__name__),
            msgspec.defstruct("S", [("a", int, 1)], module=__name__),
        ),
        (  # another name in JSON
            msgspec.defstruct("S", [("a_b", int, 0)], module=__name__),
            msgspec.defstruct("S", [("a_b", int, 0)], module=__name__, rename="camel"),
        ),
        (Colour, OtherColour),
    ],
)
def test_a_changed_shape_of_state_or_event_is_another_fold(one: Any, two: Any):
    assert folded(plus, state=one) == folded(plus, state=one)
    assert folded(plus, state=one) != folded(plus, state=two)
    if one.__name__ == "S":
        assert folded(plus, events=[one]) != folded(plus, events=[two])
        assert folded(plus, initial=one()) != folded(plus, initial=two())


def test_a_changed_pydantic_model_is_another_fold():
    def model(default: int) -> Any:
        class Customer(BaseModel):
            age: int = default

        return Customer

    assert folded(plus, state=model(1)) == folded(plus, state=model(1))
    assert folded(plus, state=model(1)) != folded(plus, state=model(2))


def test_what_makes_a_default_or_validates_a_field_counts():
    def struct(default: int) -> Any:
        made = msgspec.field(default_factory=lambda: default)
        return msgspec.defstruct("S", [("a", int, made)], module=__name__)

    def model(default: int) -> Any:
        class Customer(BaseModel):
            age: int = Field(default_factory=lambda: default)

        return Customer

    def checked(by: int) -> Any:
        check = AfterValidator(lambda age: age * by)

        class Customer(BaseModel):
            age: Annotated[int, check]

        return Customer

    for made in (struct, model, checked):
        assert folded(plus, state=made(1)) == folded(plus, state=made(1)) != ""
        assert folded(plus, state=made(1)) != folded(plus, state=made(2))


def test_a_fold_that_cannot_be_looked_into_has_snapshots_only_with_a_number():
    compiled = operator.methodcaller("plus")  # nobody can look into it
    assert folded(compiled) == ""
    assert folded(compiled, fold=1) != "" != folded(compiled, fold=2)
    assert folded(compiled, fold=1) != folded(compiled, fold=2)
    without = Aggregate("sums", 0, decide, compiled, [Add], [Added])
    snapshots = Snapshots(without, 0, 1)
    snapshots.replayed({"alice"}, 10)
    assert not snapshots.due
    assert folded(functools.partial(max, 1)) != ""  # Python's own is known by its name


def test_the_same_program_has_the_same_fingerprint_in_every_process():
    source = (
        "from tests.events import bank, theatre\n"
        "print(bank.accounts('a').fingerprint, theatre.seats.fingerprint)\n"
    )
    found = set()
    for seed in ("0", "1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, *(["-B"] if seed == "2" else []), "-c", source]
        said = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=True
        )
        found.add(said.stdout)
    assert len(found) == 1
    assert bank.accounts("a").fingerprint == bank.accounts("b").fingerprint != ""


def test_an_owner_with_a_mended_upcaster_does_not_go_on_from_old_snapshots(
    name: str, bootstrap: str
):
    def by(factor: int) -> Any:
        @upcaster("Added", 1)
        def change(data: dict[str, Any]) -> dict[str, Any]:
            return {**data, "amount": data["amount"] * factor}

        return change

    def sums(*upcasters: Any) -> Aggregate[int]:
        return Aggregate(name, 0, decide, plus, [Add], [Added], upcasters)

    options: dict[str, Any] = {"owns": "all", "partitions": 1, "snapshot_every": 1}
    with BlockingApplication(sums(), bootstrap, **options) as app:
        app.send("a", Add(3))
    with BlockingApplication(sums(by(100)), bootstrap, **options) as app:
        app.send("a", Add(4))
        assert app.state("a") == 304
    mended = sums(by(1000))
    with (
        BlockingApplication(mended, bootstrap, **options) as app,
        Reader(mended, bootstrap) as reader,
    ):
        assert app.state("a") == 3004 == reader.state("a") == reader.state("a", snapshots=False)


def test_an_owner_with_a_mended_function_for_one_event_does_not_go_on_from_old_snapshots(
    name: str, bootstrap: str
):
    def sums(factor: int) -> Aggregate[int]:
        @functools.singledispatch
        def on(event: Any, state: int) -> int:
            return state

        @on.register
        def _(event: Added, state: int) -> int:
            return state + event.amount * factor

        return Aggregate(name, 0, decide, lambda s, e: on(e, s), [Add], [Added])

    options: dict[str, Any] = {"owns": "all", "partitions": 1, "snapshot_every": 1}
    with BlockingApplication(sums(1), bootstrap, **options) as app:
        app.send("a", Add(3))
    mended = sums(10)
    with (
        BlockingApplication(mended, bootstrap, **options) as app,
        Reader(mended, bootstrap) as reader,
    ):
        assert app.state("a") == 30 == reader.state("a") == reader.state("a", snapshots=False)
