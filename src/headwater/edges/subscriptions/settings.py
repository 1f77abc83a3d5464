"""[edges.subscriptions]: whether webhooks can be subscribed to by API, and how many.

    [edges.subscriptions]
    key = "${WEBHOOKS_KEY}"       # openssl rand -hex 32; subscriptions' secrets are derived from it
    most = 100                    # in all
    most_per_token = 20           # of one token or principal
    allow_private = false         # receivers in the inner network, and http://

The topic holds no secret: one is made of the key and of a random text that is kept in the topic. Of a list
the first key makes new secrets, and the others those that were made by them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping

from headwater.edges.hooks.config import secret_complaints, secrets_of, unknown_settings
from headwater.edges.tokens import Section

KEY_CHARACTERS_MIN = 32
MOST, MOST_PER_TOKEN = 100, 20
_NUMBERS = {"most": MOST, "most_per_token": MOST_PER_TOKEN}
_LABEL = b"headwater webhook secret\0"


class Settings:
    """A checked section."""

    def __init__(self, section: Section) -> None:
        self.most: int = section.get("most", MOST)
        self.most_per_token: int = section.get("most_per_token", MOST_PER_TOKEN)
        self.allow_private: bool = section.get("allow_private", False)
        self._keys = secrets_of(section["key"])

    @property
    def key_id(self) -> str:
        """Of the key by which new secrets are made."""
        return _id(self._keys.now()[0])

    def secret(self, key_id: str, subscription: str, salt: str) -> str | None:
        """As Standard Webhooks writes it; None where that key is not here any more."""
        for key in self._keys:
            if _id(key) == key_id:
                said = _LABEL + f"{subscription}\0{salt}".encode()
                made = hmac.digest(key.encode(), said, "sha256")
                return "whsec_" + base64.b64encode(made).decode()
        return None


def check(_name: str, section: object) -> list[str]:
    """A sentence for each mistake."""
    if not isinstance(section, Mapping):
        return ["[edges.subscriptions] is a section with lines of its own"]
    said = unknown_settings(section, ("key", "allow_private", *_NUMBERS))
    wrong = [each.replace("secret", "key", 1) for each in secret_complaints(section.get("key"))]
    if not wrong and any(len(each) < KEY_CHARACTERS_MIN for each in secrets_of(section["key"])):
        wrong = [f"key has less than {KEY_CHARACTERS_MIN} characters: openssl rand -hex 32"]
    said += wrong
    for name, default in _NUMBERS.items():
        value = section.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            said.append(f"{name} = {value!r} is no whole number above 0")
    if not isinstance(section.get("allow_private", False), bool):
        said.append(f"allow_private = {section['allow_private']!r} is neither true nor false")
    return [f"[edges.subscriptions] {each}" for each in said]


def _id(key: str) -> str:
    """Tells nothing of the key."""
    return hashlib.sha256(b"headwater webhooks key\0" + key.encode()).hexdigest()[:12]
