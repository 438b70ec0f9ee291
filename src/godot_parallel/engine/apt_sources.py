"""Reads from this machine's own APT sources where it gets Debian's packages from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_APT = Path("/etc/apt")
_KEYRINGS = tuple(Path("/usr/share/keyrings/debian-archive-keyring").with_suffix(s) for s in (".gpg", ".pgp"))
_SUITES = {
    *("stable", "testing", "unstable", "sid", "oldstable"),
    *("bullseye", "bookworm", "trixie", "forky", "duke"),
}


class Mirror(NamedTuple):
    """One archive of Debian, and how its lists are verified."""

    address: str
    signed_by: str = ""
    trusted: bool = False

    def line(self, suite: str) -> str:
        """A sources.list of this mirror's ``suite``."""
        options = f"signed-by={self.signed_by} " if self.signed_by else ""
        options += "trusted=yes " if self.trusted else ""
        return f"deb {f'[ {options}] ' if options else ''}{self.address} {suite} main\n"


class _Entry(NamedTuple):
    """One line, or one paragraph, of APT's sources."""

    addresses: list[str]
    suites: list[str]
    components: list[str]
    options: dict[str, str]


def mirrors(folder: Path = _APT) -> list[Mirror]:
    """The mirrors of Debian's main archive, in both formats of APT, in order and each once."""
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    found: dict[str, Mirror] = {}
    for file in files:
        if file.suffix in (".list", ".sources") and file.is_file():
            text = re.sub(r"^\s*#.*\n?", "", file.read_text(errors="replace"), flags=re.MULTILINE)
            for entry in (_paragraphs if file.suffix == ".sources" else _lines)(text):
                for address in filter(lambda a: _is_debian(a, entry), entry.addresses):
                    found.setdefault(address.rstrip("/"), _mirror(address.rstrip("/"), entry))
    return list(found.values())


def _is_debian(address: str, entry: _Entry) -> bool:
    known = any(suite in _SUITES for suite in entry.suites) or address.rstrip("/").endswith("/debian")
    return known and "main" in entry.components and not address.startswith("cdrom:")


def _mirror(address: str, entry: _Entry) -> Mirror:
    # Only files: a key's text or fingerprint in the sources is that machine's older suite's.
    own = entry.options.get("signed-by", "")
    default = next((str(k) for k in _KEYRINGS if k.exists()), "")
    signed_by = own if own.startswith("/") and " " not in own else default
    return Mirror(address, signed_by, entry.options.get("trusted", "").lower() == "yes")


def _lines(text: str) -> Iterator[_Entry]:
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)((?:\s+[^\s#]+)*)", line)
        if match:
            pairs = (word.partition("=") for word in (match[1] or "").split())
            options = {key.lower(): value for key, _, value in pairs}
            yield _Entry([match[2]], [match[3]], match[4].split(), options)


def _paragraphs(text: str) -> Iterator[_Entry]:
    for paragraph in re.split(r"\n\s*\n", text):
        joined = re.sub(r"\n[ \t]+", " ", paragraph)
        pairs = (line.partition(":") for line in joined.splitlines())
        fields = {key.strip().lower(): value.strip() for key, _, value in pairs}
        if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes").lower() != "no":
            addresses, suites, components = (
                fields.get(n, "").split() for n in ("uris", "suites", "components")
            )
            yield _Entry(addresses, suites, components, fields)
