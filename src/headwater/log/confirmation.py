"""Asking the disk to confirm, and what it means when it does not. The log syncs nothing in another way.

After a sync that failed, the operating system may have dropped the very pages that it could not write,
and a second sync of the same file would succeed without them. So a failed sync must never be repeated
and believed: what it was to confirm counts as unknown until it has been read again, or written again
as a whole.

    records, their file's name    the partition takes no more writes until the next start (`partition`)
    segments exchanged            the same: only the next start knows which ones count (`compaction`)
    recovery of a running log     the same (`store.reopen_log`); at start, there is no start
    index, list of aborted ones   written again from memory, from the last byte that was confirmed
    checkpoint, snapshot, epochs  a new file each time (`FileSystem.write_atomic`); the old one counts
    what compaction made          forgotten, and made again
"""

from __future__ import annotations

import errno
from pathlib import Path

from headwater.log.files import File, FileSystem

NOT_ASKED = (errno.EMFILE, errno.ENFILE)
"""The folder could not even be opened: nothing was asked of the disk."""


class StorageFailed(Exception):
    """The disk refused a write; nothing of it counts as stored."""


class SyncFailed(StorageFailed, OSError):
    """The disk did not confirm a write; what it holds now is unknown until it is read again.

    An OSError as well: whoever can go on after one has to look whether it is this one.
    """


class Displaced(SyncFailed):
    """It did, but no start would find it: the file was removed, moved or replaced while it was in use."""


def sync_file(file: File) -> None:
    """Raises SyncFailed, Displaced."""
    try:
        file.sync()
        is_in_place = file.is_in_place()
    except OSError as error:
        if error.errno in NOT_ASKED:
            raise
        raise SyncFailed(str(error)) from error
    if not is_in_place:
        raise Displaced("its file was removed, moved or replaced while it was in use")


def sync_folder(files: FileSystem, directory: Path) -> None:
    """Names made, changed and removed in it are durable afterwards. Raises SyncFailed, and OSError
    if the folder cannot be opened."""
    try:
        files.sync_dir(directory)
    except OSError as error:
        if error.errno in NOT_ASKED:
            raise
        raise SyncFailed(str(error)) from error
