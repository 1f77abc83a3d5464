"""What a package index shows of headwater: README.md, with no link that would be dead there.

Hatchling calls this whenever it makes a package. A link to a file of this repository leads nowhere there.
Where [project.urls] of pyproject.toml names a Repository it leads there; as long as none is named it is the
text alone, and a sentence at the end says where those pages are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?![a-z][a-z0-9+.-]*:|#)([^()\s]+)\)")
_ENDING = """
The pages and files named here come with the source distribution:
`pip download --no-deps --no-binary headwater headwater`.
"""


def described(readme: str, repository: str | None) -> str:
    """The text for an index. `repository`: its address, without which links to files are left out."""
    if repository is not None:
        return _LINK.sub(rf"\1[\2]({repository.rstrip('/')}/blob/main/\3)", readme)
    return _LINK.sub(r"\2", readme) + _ENDING


def of_project(root: Path, urls: Mapping[str, str]) -> dict[str, str]:
    """As the metadata of a package have it."""
    text = (root / "README.md").read_text(encoding="utf-8")
    return {
        "content-type": "text/markdown",
        "text": described(text, urls.get("Repository")),
    }


try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ModuleNotFoundError:  # only hatchling itself needs the rest
    pass
else:

    class Description(MetadataHookInterface):
        def update(self, metadata: dict[str, object]) -> None:
            urls = metadata.get("urls")
            metadata["readme"] = of_project(
                Path(self.root), urls if isinstance(urls, Mapping) else {}
            )
