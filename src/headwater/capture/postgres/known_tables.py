"""What readers have been told of tables, as far as the stream has come; pure, for `assembly` and `snapshot`.

The server knows a table by its number, readers by its name. ALTER TABLE … RENAME and SET SCHEMA are not in
the stream: the next change of the table comes with its new name. So the position says whose rows readers
have under each name.

    in the position:  {"schemas": {"public.orders": digest of its columns},
                       "keys": {"public.orders": form of its keys}, "names": {"public.orders": 16391}}
"""

from __future__ import annotations

from headwater.capture.change import Position
from headwater.capture.key_forms import is_known, is_redefined


class KnownTables:
    def __init__(self, position: Position) -> None:
        self.schemas: dict[str, str] = dict(position.get("schemas", {}))
        self._keys: dict[str, str] = dict(position.get("keys", {}))
        self._names: dict[str, int] = dict(position.get("names", {}))

    def told(self) -> Position:
        """For the position."""
        return {
            "schemas": dict(self.schemas),
            "keys": dict(self._keys),
            "names": dict(self._names),
        }

    def meet(self, name: str, number: int) -> list[str]:
        """A table is met under this name: the names under which readers have had other rows until now, those
        that it has left and perhaps this one."""
        names = self._names
        if names.get(name) == number:
            return []
        changed = [each for each, whose in names.items() if whose == number]
        for each in changed:
            del names[each]
        if name in names:
            changed.append(name)
        names[name] = number
        return changed

    def begin(self, name: str, number: int, digest: str, key_form: str) -> None:
        """Its rows are read from the first one on."""
        self.schemas[name], self._keys[name], self._names[name] = digest, key_form, number

    def forget(self, name: str) -> None:
        """What readers have under this name is no longer there."""
        self.schemas.pop(name, None)
        self._keys.pop(name, None)

    def note_key(self, name: str, key_form: str) -> None:
        self._keys.setdefault(name, key_form)

    def is_redefined(self, name: str, key_form: str) -> bool:
        """Whether readers have its rows under keys of another form; from now on they are told of this one."""
        return is_redefined(self._keys, name, key_form)

    def stands_as(self, name: str, key_form: str) -> bool:
        """Whether readers have its rows under keys of this form."""
        return is_known(self._keys, name, key_form)
