"""A file system in memory that does to the log what real disks do: `headwater.log.files.Files` with faults.

For tests of anything that writes through the file-system seam:

    disk = FaultyDisk(seed=7)
    disk.make_dir(directory)
    log, _ = open_partition(disk, directory, LogConfig(), now_ms)
    ...
    disk = disk.crash()                      # power cut: unsynced writes lost, torn, reordered
    disk = disk.crash(outcome="torn")        # … every one of them torn; or "lost", or "corrupt"
    disk = disk.kill()                       # process killed: all that was written is still there
    disk.stop_after(12)                      # PowerCut in the twelfth step from now
    disk.before_each_step(look)              # what if it went off here? `look` may take a copy()
    disk.fail("write", errno.ENOSPC)         # the next write; also after=, times=, name="*.log"
    disk.free_bytes = 0                      # what `space` says, whatever there is
    disk.fail("open", errno.EMFILE)          # no descriptor left; "read" for a sector that is gone
    disk.capacity_bytes = 10_000             # full beyond that, until something is removed
    disk.flip_bit(path)                      # the medium rots
    disk.lose(path)                          # somebody has removed a file, or a folder
    disk.cut_short(path, 100)                # … or the end of one
    disk.all_files()                         # what there is to be lost
    disk.counts["sync"], disk.bytes_read     # what it cost

Everything random follows from the seed, so a failure can be run again. What a power cut may and may
not do is described in `volatile`. Traps:

- `crash` and `kill` switch this disk off and give back another: open the log again on that one. They
  may be called several times on the same disk, for several ways in which it might have come out.
- A failed `sync` loses the unsynced writes of that file for good, though they can still be read: that
  is what Linux does. A failed `write` may have written the beginning.
- The root of every path is there from the start; other directories must be made.
"""

from __future__ import annotations

import builtins
import copy
import errno
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from headwater.log.files import Space
from headwater.testing.faults import HARMLESS, Failure, Faults, Operation, PowerCut, error_of
from headwater.testing.faulty_file import FaultyFile
from headwater.testing.volatile import Change, Data, Directory, Node, Outcome

__all__ = ["FaultyDisk", "FaultyFile", "PowerCut"]


class FaultyDisk:
    """`headwater.log.files.FileSystem` in memory, with faults on demand."""

    def __init__(self, seed: int = 0, *, sector_bytes: int = 1) -> None:
        """`sector_bytes`: a torn write is torn only at multiples of this; 1 means anywhere."""
        self.random = Random(seed)
        self.sector_bytes = sector_bytes
        self.bytes_read = 0
        self.bytes_written = 0
        self.free_bytes = 1 << 40
        """What `space` says; nothing fails because of it."""
        self.cold = False
        """While true no read can be answered from the cache (`read_cached` gives None)."""
        self.capacity_bytes: int | None = None
        """All files together hold no more than this; None: there is no end of room."""
        self._root = Directory()
        self._locked: set[Path] = set()
        self._faults = Faults()
        self._lock = threading.RLock()

    # ---- faults --------------------------------------------------------------------------------

    def crash(self, seed: int | None = None, outcome: Outcome | None = None) -> FaultyDisk:
        """The disk as a power cut at this moment leaves it. Everything on it is durable.

        `outcome`: what becomes of all that was not synced; by chance unless told.
        """
        found = self._next(
            lambda dice: self._root.after_power_cut(dice, self.sector_bytes, outcome), seed
        )
        self._faults.off = True
        return found

    def kill(self, seed: int | None = None) -> FaultyDisk:
        """The disk as the end of this process leaves it: all is there, nothing more is durable."""
        found = self.copy(seed)
        self._faults.off = True
        return found

    def copy(self, seed: int | None = None) -> FaultyDisk:
        """The same disk once more, with what is durable and what is not; this one goes on."""
        return self._next(lambda _: copy.deepcopy(self._root), seed)

    def _next(self, root: Callable[[Random], Directory], seed: int | None) -> FaultyDisk:
        with self._lock:
            found = FaultyDisk(sector_bytes=self.sector_bytes)
            found.free_bytes = self.free_bytes
            found.random = Random(self.random.random() if seed is None else seed)
            found._root = root(found.random)
            return found

    def stop_after(self, steps: int) -> None:
        """Cut the power in the `steps`-th step from now: it is half done or not done at all."""
        self._faults.steps_left = steps

    @property
    def is_off(self) -> bool:
        """After a power cut, or a `crash` or `kill`."""
        return self._faults.off

    def at_power_cut(self, tell: Callable[[], None]) -> None:
        """Call this in the moment in which `stop_after` cuts the power."""
        self._faults.at_power_cut = tell

    def before_each_step(self, look: Callable[[], None] | None) -> None:
        """Call `look` before every step, in whatever thread takes it; None: no more."""
        self._faults.before_step = look

    def fail(
        self,
        operation: Operation,
        error: int = errno.EIO,
        *,
        after: int = 0,
        times: float = 1,
        name: str = "*",
    ) -> None:
        """Let operations of that kind fail, on files whose name matches.

        `after` of them succeed first, then `times` fail (`math.inf`: until `heal`).
        """
        self._faults.failures.append(Failure(operation, error, after, times, name))

    def heal(self) -> None:
        """Nothing planned goes wrong any more."""
        self._faults.failures.clear()
        self._faults.steps_left = None
        self.capacity_bytes = None

    def flip_bit(self, path: Path, position: int | None = None, bit: int | None = None) -> int:
        """Alter one bit of a file, as rot does; by chance unless told which. Returns the position."""
        data = self._data(path)
        position = self.random.randrange(len(data.now)) if position is None else position
        mask = 1 << (self.random.randrange(8) if bit is None else bit)
        data.now[position] ^= mask
        if position < len(data.durable):
            data.durable[position] ^= mask
        return position

    def lose(self, path: Path) -> None:
        """A file or folder is gone permanently, as if somebody had removed it."""
        with self._lock:
            directory = self._directory(path.parent)
            for entries in (directory.now, directory.durable):
                entries.pop(path.name, None)

    def cut_short(self, path: Path, size: int) -> None:
        """A file ends there, permanently."""
        data = self._data(path)
        for content in (data.now, data.durable):
            del content[size:]
        data.pending.clear()

    def put_back(self, other: FaultyDisk, path: Path) -> None:
        """Give this disk a copy of what the other has there, durably: a backup is played back."""
        with self._lock:
            directory, node = self._directory(path.parent), copy.deepcopy(other._node(path))
            directory.now[path.name] = directory.durable[path.name] = node

    def all_files(self, directory: Path = Path("/")) -> builtins.list[Path]:
        """Every file below a folder, in order."""
        found: builtins.list[Path] = []
        for name, node in sorted(self._directory(directory).now.items()):
            path = directory / name
            found += self.all_files(path) if isinstance(node, Directory) else [path]
        return found

    # ---- what it cost and how it stands --------------------------------------------------------

    @property
    def counts(self) -> Counter[str]:
        """How many operations of each kind there have been."""
        return self._faults.counts

    @property
    def steps(self) -> int:
        """How many changes and syncs there have been."""
        return self.counts.total() - sum(self.counts[each] for each in HARMLESS)

    @property
    def used_bytes(self) -> int:
        """What all files hold together."""
        return _bytes_of(self._root)

    def is_durable(self, path: Path) -> bool:
        """Whether any power cut now would leave this file exactly as it reads."""
        node: Node = self._root
        for part in _parts(path):
            if not isinstance(node, Directory) or node.pending or part not in node.now:
                return False
            node = node.now[part]
        return isinstance(node, Data) and not node.pending and node.now == node.durable

    # ---- FileSystem ----------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False) -> FaultyFile:
        with self._lock:
            self._descriptor(path)
            directory = self._directory(path.parent)
            if create and path.name not in directory.now:
                self._change("create", path, lambda: directory.change((path.name, Data())))
            return FaultyFile(self, path, self._data(path))

    def read_bytes(self, path: Path) -> bytes | None:
        with self._lock:
            try:
                data = self._data(path)
            except FileNotFoundError:
                return None
            self._descriptor(path)
            return self._read(path, data, 0, len(data.now))

    def write_atomic(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        self._replace(temporary, data).sync()
        self.rename(temporary, path)
        self.sync_dir(path.parent)

    def write(self, path: Path, data: bytes) -> None:
        self._replace(path, data)

    def _replace(self, path: Path, data: bytes) -> FaultyFile:
        file = self.open(path, create=True)
        file.truncate(0)
        file.write(0, [data])
        return file

    def list(self, directory: Path) -> list[str]:
        with self._lock:
            try:
                names = self._directory(directory).now
            except FileNotFoundError:
                return []
            if not self.is_off:  # what it was like may be looked at afterwards
                self._descriptor(directory)
            return sorted(names)

    def size(self, path: Path) -> int:
        with self._lock:
            return len(self._data(path).now)

    def make_dir(self, directory: Path) -> None:
        with self._lock:
            self._make_missing(directory)
            self.sync_dir(directory.parent)

    def _make_missing(self, directory: Path) -> None:
        if not _parts(directory):
            return
        self._make_missing(directory.parent)
        parent, name = self._directory(directory.parent), directory.name
        if name not in parent.now:
            self._change("make_dir", directory, lambda: parent.change((name, Directory())))

    def sync_dir(self, directory: Path) -> None:
        with self._lock:
            node = self._directory(directory)
            self._descriptor(directory)
            fault = self._faults.next("sync_dir", directory)
            if fault is not None:
                raise fault
            node.sync()

    def rename(self, old: Path, new: Path) -> None:
        if old.parent != new.parent:
            raise ValueError("a FaultyDisk renames only within one directory")
        with self._lock:
            directory, node = self._directory(old.parent), self._node(old)
            self._change(
                "rename", old, lambda: directory.change((old.name, None), (new.name, node))
            )

    def remove(self, path: Path) -> None:
        with self._lock:
            directory = self._directory(path.parent)
            if path.name in directory.now:
                self._change("remove", path, lambda: directory.change((path.name, None)))

    def remove_tree(self, directory: Path) -> None:
        with self._lock:
            for name in self.list(directory):
                if isinstance(self._node(directory / name), Directory):
                    self.remove_tree(directory / name)
                else:
                    self.remove(directory / name)
            self.remove(directory)

    def lock(self, path: Path) -> Callable[[], None]:
        """Until the returned function is called, or this disk has crashed or been killed."""
        with self._lock:
            if path in self._locked:
                raise error_of(errno.EWOULDBLOCK, path)
            self.open(path, create=True)
            self._locked.add(path)
            return lambda: self._locked.discard(path)

    def space(self, path: Path) -> Space:
        total = max(1 << 40, self.free_bytes)
        if self.capacity_bytes is None:
            return Space(self.free_bytes, total)
        left = max(0, self.capacity_bytes - self.used_bytes)
        return Space(min(left, self.free_bytes), self.capacity_bytes)

    def _descriptor(self, path: Path) -> None:
        """Every way to look at something takes one, if only for a moment."""
        fault = self._faults.next("open", path)
        if fault is not None:
            raise fault

    # ---- one step ------------------------------------------------------------------------------

    def _change(self, operation: Operation, path: Path, change: Callable[[], None]) -> None:
        with self._lock:
            fault = self._faults.next(operation, path)
            if not isinstance(fault, OSError):  # a power cut may come after the change as well
                change()
            if fault is not None:
                raise fault

    def _write(self, path: Path, data: Data, position: int, content: bytes) -> None:
        with self._lock:
            fault = self._faults.next("write", path)
            if fault is not None:
                content = content[: self.random.randint(0, len(content))]
            room = self._room(data, position)
            if room is not None and len(content) > room:
                content, fault = content[:room], fault or error_of(errno.ENOSPC, path)
            if content:
                data.change(Change(position, content))
            self.bytes_written += len(content)
            if fault is not None:
                raise fault

    def _room(self, data: Data, position: int) -> int | None:
        """How many bytes may be written there before the disk is full; None: any number."""
        if self.capacity_bytes is None:
            return None
        within = max(0, len(data.now) - position)
        return within + max(0, self.capacity_bytes - self.used_bytes)

    def _read(self, path: Path, data: Data, position: int, size: int) -> bytes:
        with self._lock:
            fault = self._faults.next("read", path)
            if fault is not None:
                raise fault
            found = bytes(data.now[position : position + size])
            self.bytes_read += len(found)
            return found

    def _sync(self, path: Path, data: Data) -> None:
        with self._lock:
            fault = self._faults.next("sync", path)
            if fault is None:
                data.sync()
                return
            if isinstance(fault, OSError):
                data.forget()
            raise fault

    # ---- finding nodes -------------------------------------------------------------------------

    def _node(self, path: Path) -> Node:
        node: Node = self._root
        for part in _parts(path):
            if not isinstance(node, Directory):
                raise error_of(errno.ENOTDIR, path)
            if part not in node.now:
                raise error_of(errno.ENOENT, path)
            node = node.now[part]
        return node

    def _data(self, path: Path) -> Data:
        node = self._node(path)
        if isinstance(node, Directory):
            raise error_of(errno.EISDIR, path)
        return node

    def _directory(self, path: Path) -> Directory:
        node = self._node(path)
        if isinstance(node, Data):
            raise error_of(errno.ENOTDIR, path)
        return node


def _bytes_of(node: Node) -> int:
    if isinstance(node, Directory):
        return sum(_bytes_of(each) for each in node.now.values())
    return len(node.now)


def _parts(path: Path) -> tuple[str, ...]:
    return path.parts[1:] if path.is_absolute() else path.parts
