"""Notices to people and programs: by mail, as a command, into a topic. (By HTTP: `webhooks.poster`.)

Each is a sender of `webhooks.deliverer`, which tries again, keeps the order and buries what cannot be
delivered. Mail and commands may come twice where we die between sending and noting it; the id tells.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import smtplib
import ssl
import tempfile
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate
from typing import IO
from urllib.parse import quote, urlsplit

from headwater.client.publisher import Draft
from headwater.edges.alerts.config import Command, Mail, ToTopic
from headwater.edges.alerts.notices import Notice, notice_of
from headwater.edges.appender import Appender
from headwater.edges.webhooks.delivery import ID_HEADER, Delivery, Outcome
from headwater.errors import HeadwaterError

_PORTS = {"smtp": 25, "smtps": 465, "smtp+starttls": 587}
_SHOWN = 500
_NO_NOTICE = Outcome(False, "it is no notice: another client has written it", is_final=True)
_HARMLESS = re.compile(r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|PWD")


class Mailer:
    def __init__(self, mail: Mail) -> None:
        self._mail = mail

    async def send(self, delivery: Delivery) -> Outcome:
        notice = notice_of(delivery.record.value)
        if notice is None:
            return _NO_NOTICE
        try:
            await asyncio.to_thread(self._send, message_of(self._mail, delivery, notice))
        except (smtplib.SMTPException, OSError) as error:
            return Outcome(False, f"{self._mail.server}: {type(error).__name__}: {error}")
        return Outcome(True)

    async def close(self) -> None:
        pass

    def _send(self, message: EmailMessage) -> None:
        parts = urlsplit(self._mail.server)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        timeout = self._mail.timeout_s
        context = ssl.create_default_context()
        with (
            smtplib.SMTP_SSL(host, port, timeout=timeout, context=context)
            if parts.scheme == "smtps"
            else smtplib.SMTP(host, port, timeout=timeout)
        ) as server:
            if parts.scheme == "smtp+starttls":
                server.starttls(context=context)
            if self._mail.user is not None:
                server.login(self._mail.user, self._mail.password or "")
            server.send_message(message, self._mail.sender, list(self._mail.receivers))


def message_of(mail: Mail, delivery: Delivery, notice: Notice) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = mail.sender, ", ".join(mail.receivers)
    message["Date"] = formatdate(delivery.record.timestamp_ms / 1000)
    message["Message-ID"] = f"<{_word(delivery.id)}@headwater>"
    message["Subject"] = _line(f"[headwater] {notice.alert} {notice.state}: {notice.summary}")
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday is to answer it
    message.set_content("\n".join(_lines(notice)) + "\n")
    return message


class Runner:
    """A command, without a shell: the notice on its standard input, its first words in the environment."""

    def __init__(self, command: Command) -> None:
        self._command = command

    async def send(self, delivery: Delivery) -> Outcome:
        value = delivery.record.value or b""
        notice = notice_of(value)
        if notice is None:
            return _NO_NOTICE
        own = {"HEADWATER_ALERT": notice.alert, "HEADWATER_STATE": notice.state}
        try:
            # A file, for a pipe breaks where a program reads nothing: it would be told again.
            with await asyncio.to_thread(_file_of, value) as said:
                child = await asyncio.create_subprocess_exec(
                    *self._command.words,
                    stdin=said,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    env={**_environment(), **own, "HEADWATER_DELIVERY": _word(delivery.id)},
                    start_new_session=True,  # so that its children end with it
                )
        except OSError as error:
            return Outcome(False, f"{self._command.words[0]}: {error.strerror or error}")
        return await self._ended(child)

    async def close(self) -> None:
        pass

    async def _ended(self, child: asyncio.subprocess.Process) -> Outcome:
        try:
            async with asyncio.timeout(self._command.timeout_s):
                _, said = await child.communicate()
        except TimeoutError:
            return Outcome(False, f"no end within {self._command.timeout_s:g} s")
        finally:
            _end(child)
        if child.returncode == 0:
            return Outcome(True)
        words = said[-_SHOWN:].decode("utf-8", "replace").strip()
        return Outcome(False, f"exit code {child.returncode}" + (f": {words}" if words else ""))


def _environment() -> dict[str, str]:
    """What a program needs to run, and none of the secrets that the edges were given."""
    return {name: value for name, value in os.environ.items() if _HARMLESS.fullmatch(name)}


class Teller:
    """Into a topic."""

    def __init__(self, to: ToTopic, appender: Appender) -> None:
        self._to, self._appender = to, appender

    async def send(self, delivery: Delivery) -> Outcome:
        headers = [("content-type", b"application/json"), (ID_HEADER, delivery.id.encode())]
        try:
            await self._appender.append(
                self._to.topic, [Draft(delivery.record.key, delivery.record.value, headers)]
            )
        except HeadwaterError as error:
            return Outcome(False, str(error))
        return Outcome(True)

    async def close(self) -> None:
        pass


def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _file_of(value: bytes) -> IO[bytes]:
    found = tempfile.TemporaryFile()  # noqa: SIM115 - who starts the program closes it
    found.write(value)
    found.seek(0)
    return found


def _word(delivery: str) -> str:
    """An id as it is in a header or the environment: of what is sent again, anybody may have written it."""
    return quote(delivery, safe="._-")


def _line(text: str) -> str:
    """A header is one line."""
    return " ".join(text.split())[:200]


def _lines(notice: Notice) -> Sequence[str]:
    lines = [notice.summary, ""]
    if notice.record is not None:
        place = "{topic}-{partition} at {offset}".format(**notice.record)
        lines += [f"record: {place}", f"key:    {notice.record['key']}"]
        lines += [f"value:  {notice.record['value']}"]
    return [*lines, f"alert:  {notice.alert} ({notice.state})"]
