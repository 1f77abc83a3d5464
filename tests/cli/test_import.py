"""`import headwater` is cheap, and offers the public names all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest


def in_a_new_process(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_headwater_loads_no_other_package():
    program = (
        "import sys; before = {*sys.modules}; import headwater; "
        "print(*sorted({m.split('.')[0] for m in {*sys.modules} - before} "
        "- {*sys.stdlib_module_names}))"
    )
    assert in_a_new_process(program) == "headwater"


@pytest.mark.parametrize("name", ["Broker", "HeadwaterError", "testing", "__version__"])
def test_public_names_are_there_when_asked_for(name: str):
    assert in_a_new_process(f"import headwater; print(bool(headwater.{name}))") == "True"


def test_every_public_name_is_listed_and_an_unknown_one_is_an_attribute_error():
    program = (
        "import headwater; print(set(headwater.__all__) <= set(dir(headwater)), "
        "hasattr(headwater, 'no_such_name'))"
    )
    assert in_a_new_process(program) == "True False"


def test_what_people_ask_of_a_log_needs_nothing_but_the_core():
    program = (
        "import sys; from headwater.browse import pages, replay, search; "
        "from headwater.client import groups, publisher, tail; "
        "import headwater.cli.tail, headwater.cli.produce, headwater.cli.groups; "
        "print({'numpy', 'pyspark', 'rich', 'fastavro'} & {*sys.modules})"
    )
    assert in_a_new_process(program) == "set()"
