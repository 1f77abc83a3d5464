"""Strangers' schemas are parsed and compared in processes of their own, which may take so long and so much.

`Store` has one `Sandbox`; threads of the registry ask it. A schema within all `bounds` can still keep a
library busy for hours (each of 60,000 values compared with each other), and a thread cannot be ended: a
process can.

    this process ──frame──▶ python -m headwater.schemas.sandbox ──frame──▶ this process
                            `CPU_S` seconds of CPU for one question, by the kernel (SIGXCPU)
                            `MEMORY_BYTES` of memory; no secrets in its environment
                            what takes more is asked again of one that has `LARGE_BYTES`

    frame   4 bytes length, big-endian; then JSON
    asked   ["text", SOURCE, form, is_new] | ["complaints", SOURCE, [[version, SOURCE]…], level]
    SOURCE  [kind, text, [[name, text]…]]
    answer  ["is", ANSWER, seconds of CPU] | ["no", code, sentence]

Invariants: a question is answered, refused, or ends its process, never this one. What was answered is kept
(`KEPT`), refusals too, by digests. Who registers has it compared first, and again while no other may write:
that thread remembers all that it has asked (`remembering`) and asks no more (`from_memory`), so that nobody
waits for a comparison.
A process that was ended by others (the kernel, for want of memory) says nothing about the schema: another is
asked, and where that happens again nothing is kept.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import IO, TypeVar

from headwater.schemas.bounds import check_text
from headwater.schemas.errors import InvalidSchema, RegistryError, store_failed, too_large
from headwater.schemas.parser import Answers, Dated, Direct, Form, Source, answered

CPU_S = 5
PROCESSES = 4
MEMORY_BYTES = 256 * 1024**2
LARGE_BYTES = 1024**3
"""Of one more process, for what has found no room in the others."""
WALL_S = 120.0
"""Should a process do nothing at all, and use no CPU by that."""
TRIES = 2
ENDING_S = 5.0
KEPT = 64
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "HOME")
_LENGTH = struct.Struct(">I")
_BROKEN = (ArithmeticError, AssertionError, AttributeError,
           LookupError, RuntimeError, TypeError, ValueError)  # fmt: skip
"""What a library ends with that meets something it does not expect."""
Answer = TypeVar("Answer")
_Said = tuple[object, object, object]
"""As in a frame."""


class _Process:
    """One at work. Not for two threads at once."""

    def __init__(self, cpu_s: int, memory_bytes: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(cpu_s), str(memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},  # as this program has it
        )
        assert self._process.stdout is not None
        self._answers = select.poll()  # select knows no descriptor beyond 1,024
        self._answers.register(self._process.stdout, select.POLLIN)

    def ask(self, question: bytes) -> _Said:
        """Raises EOFError or OSError: it has ended, or is of no use any more."""
        assert self._process.stdin is not None and self._process.stdout is not None
        _write(self._process.stdin, question)
        if not self._answers.poll(WALL_S * 1000):
            raise EOFError("it does not answer")
        word, answer, more = json.loads(_read(self._process.stdout))
        return word, answer, more

    def was_ended(self) -> bool:
        """Whether somebody else has ended it, and not the bounds that it has."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDING_S)  # its pipes are closed a moment before
        return self._process.returncode in (None, -signal.SIGKILL, -signal.SIGTERM)

    def lacked_memory(self) -> bool:
        """After `was_ended`: without memory libraries end in many ways, without time in one."""
        return self._process.returncode != -signal.SIGXCPU

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class _Pool:
    """Processes of one size, for several threads."""

    def __init__(self, cpu_s: int, memory_bytes: int, processes: int) -> None:
        self._cpu_s, self._memory_bytes = cpu_s, memory_bytes
        self.turns = threading.BoundedSemaphore(processes)
        self.idle: list[_Process] = []
        """Put in and taken out in one step each: it needs no lock."""

    def take(self) -> _Process:
        """One that waits, or a new one."""
        with suppress(IndexError):
            while (process := self.idle.pop())._process.poll() is not None:
                process.end()
            return process
        return _Process(self._cpu_s, self._memory_bytes)

    def close(self) -> None:
        while self.idle:
            self.idle.pop().end()


class Sandbox:
    """For several threads: as many processes as are needed at once, up to `PROCESSES`, and a large one."""

    def __init__(self, cpu_s: int = CPU_S) -> None:
        self._cpu_s = cpu_s
        said = f"The schema takes more than {cpu_s} seconds or 1 GiB to be looked at"
        self._too_much: _Said = ("no", too_large("").code, said)
        self._pools = (_Pool(cpu_s, MEMORY_BYTES, PROCESSES), _Pool(cpu_s, LARGE_BYTES, 1))
        self._answers: Answers[_Said] = Answers(KEPT)

    def text(self, source: Source, form: Form, *, is_new: bool) -> str:
        for each in (source.text, *(each.text for each in source.imported)):
            check_text(each)
        found, _ = self._known(["text", source, form, is_new], str)
        return found

    def complaints(self, new: Source, known: Sequence[Dated], level: str) -> list[str]:
        """The latest first, until one has something to say; all together within its seconds."""
        left = float(self._cpu_s)
        for each in reversed(known):
            said, seconds = self._known(["complaints", new, [each], level], _texts)
            left -= seconds
            if said:
                return said
            if left < 0:
                raise too_large(str(self._too_much[-1]))
        return []

    def remembering(self) -> AbstractContextManager[None]:
        return self._answers.remembering()

    def from_memory(self) -> AbstractContextManager[None]:
        return self._answers.from_memory()

    def close(self) -> None:
        for pool in self._pools:
            pool.close()

    def _known(
        self, question: list[object], read: Callable[[object], Answer]
    ) -> tuple[Answer, float]:
        """The answer, and the seconds of CPU that it took now."""
        asked = json.dumps(question).encode()
        word, answer, more = self._answers.get(asked) or self._asked(asked)
        self._answers.put(asked, (word, answer, 0.0 if word == "is" else more))
        if word == "is":
            return read(answer), float(str(more))
        if answer == InvalidSchema("").code:
            raise InvalidSchema(str(more))
        raise RegistryError(int(str(answer)), str(more))

    def _asked(self, question: bytes) -> _Said:
        for pool in self._pools:
            with pool.turns:
                if (answer := self._asked_of(pool, question)) is not None:
                    return answer
        return self._too_much

    def _asked_of(self, pool: _Pool, question: bytes) -> _Said | None:
        """None: it takes more memory than these have."""
        for _ in range(TRIES):
            process, is_good = pool.take(), False
            try:
                answer, is_good = process.ask(question), True
                return answer
            except (EOFError, OSError):
                if not process.was_ended():
                    return None if process.lacked_memory() else self._too_much
            finally:
                pool.idle.append(process) if is_good else process.end()
        raise store_failed("what looks at schemas is ended by something else: try again")


def _texts(found: object) -> list[str]:
    return [str(each) for each in found] if isinstance(found, list) else []


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(_LENGTH.pack(len(data)))
    file.write(data)
    file.flush()


def _read(file: IO[bytes]) -> bytes:
    (size,) = _LENGTH.unpack(_exactly(file, _LENGTH.size))
    return _exactly(file, size)


def _exactly(file: IO[bytes], size: int) -> bytes:
    if len(data := file.read(size)) == size:
        return data
    raise EOFError("it has ended")


# ---- in the process ------------------------------------------------------------------------------


def _main(cpu_s: int, memory_bytes: int) -> None:
    import resource

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints must not print into an answer
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    parser = Direct()
    while True:
        try:
            question = _read(sys.stdin.buffer)
        except EOFError:
            return
        begun = _cpu_s()
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(begun) + 1 + cpu_s, hard))
        _write(answers, json.dumps(_answer(parser, json.loads(question), begun)).encode())


def _answer(parser: Direct, question: list[object], begun: float) -> list[object]:
    try:
        return ["is", answered(parser, question), _cpu_s() - begun]
    except RegistryError as error:
        return ["no", error.code, error.sentence]
    except RecursionError:
        return ["no", InvalidSchema("").code, "Invalid schema: it is nested too deeply"]
    except _BROKEN as error:  # of memory: the process is of no use any more, and ends
        sys.excepthook(type(error), error, error.__traceback__)
        failed = store_failed(f"the schema could not be looked at: {type(error).__name__}")
        return ["no", failed.code, failed.sentence]


def _cpu_s() -> float:
    used = os.times()
    return used.user + used.system


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
