"""Compiled or not, the same batches are accepted, and the others refused with the same words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.record import forms
from tests.record.outcomes import outcomes

PACKAGE = Path(forms.__file__).parent


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 600), *(pytest.param(s, 6000, marks=pytest.mark.soak) for s in (2, 3))]
)
def test_both_forms_say_the_same_of_any_batch(seed: int, count: int) -> None:
    if not forms.COMPILED:
        pytest.skip("the modules are not compiled here")
    done = subprocess.run(
        [sys.executable, "-m", "tests.record.outcomes", str(seed), str(count)],
        env=os.environ | {"HEADWATER_PLAIN": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    form, *plain = done.stdout.splitlines()
    assert form == "as plain Python"
    for compiled, other in zip(outcomes(seed, count), plain, strict=True):
        assert compiled == other, f"seed {seed}"


def test_a_compiled_form_of_other_sources_is_not_run(tmp_path: Path) -> None:
    package = tmp_path / "record"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("compiled"))
    assert forms.compiled_folder(package) is None
    (package / "compiled").mkdir()
    before = forms.compiled_folder(package)
    assert before == forms.compiled_folder(package) is not None
    for name in forms.MODULES:
        source = package / f"{name}.py"
        source.write_bytes(source.read_bytes() + b"\n")
        after = forms.compiled_folder(package)
        assert after != before
        before = after


def test_a_library_that_cannot_be_loaded_is_left_alone(tmp_path: Path) -> None:
    """Of another version of Python, or of another system: the same files run as they are."""
    package = tmp_path / "headwater" / "record"
    shutil.copytree(PACKAGE.parent, package.parent, ignore=shutil.ignore_patterns("compiled"))
    folder = package / "compiled" / forms.fingerprint(package)
    folder.mkdir(parents=True)
    for suffix in (".so", ".cpython-39-x86_64-linux-gnu.so", ".abi3.so"):
        (folder / f"{forms.LIBRARY}__mypyc{suffix}").write_bytes(b"no library")
    told = "from headwater.record import forms, validate; print(forms.name(), validate.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", told],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["as", "plain", "Python", str(package / "validate.py")]
