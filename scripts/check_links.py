"""Check the links of the docs: in the sources, and in the site where it was built.

``python scripts/check_links.py [SITE]`` checks every relative link and anchor of
the repository's own pages (README.md and its neighbours, docs/), and, given the
folder of the built site, that every link inside it leads somewhere and that no page
loads anything from the network.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
# Pages that are made while the site is built; `properdocs build --strict` checks these.
GENERATED = ("docs/api/", "docs/reference/", "docs/tutorials/tour.md")

_FENCE = re.compile(r"^```.*?^```", flags=re.M | re.S)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\((?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")
_HEADING = re.compile(r"^#+ +(.*)$", flags=re.M)
_ADDRESS_IN_CSS = re.compile(r"url\(\s*['\"]?(https?:|//)|@import\s+['\"]?(https?:|//)")
# What a browser fetches by itself; links that people click on may lead outside.
_LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
}


# ------------------------------------------------------------------ sources
def source_pages() -> list[Path]:
    """Return the Markdown files whose links are checked."""
    top = sorted(ROOT.glob("*.md"))
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def source_problems(pages: list[Path] | None = None, root: Path = ROOT) -> list[str]:
    """Return the relative links of pages that lead nowhere."""
    problems = []
    for page in source_pages() if pages is None else pages:
        for path, anchor in _source_links(page):
            target = Path(os.path.normpath(page.parent / path)) if path else page
            name = os.path.relpath(target, root)
            if name.startswith(GENERATED):
                continue
            if not target.exists():
                problems.append(f"{page.name}: there is no {name}")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                problems.append(f"{page.name}: {name} has no heading #{anchor}")
    return problems


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    text = _FENCE.sub("", page.read_text("utf-8"))
    names = set()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
        names.add(re.sub(r"[-\s]+", "-", plain))
    return names


def _source_links(page: Path) -> Iterator[tuple[str, str]]:
    text = _CODE.sub("", _FENCE.sub("", page.read_text("utf-8")))
    for found in _LINK.finditer(text):
        if not re.match(r"[a-z]+:", found["path"]):
            yield found["path"], found["anchor"] or ""


# ------------------------------------------------------------------ the built site
class _Page(HTMLParser):
    """Collects what a page loads, where it leads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in given}
        if "id" in values:
            self.anchors.add(values["id"])
        if tag in _LOADED and values.get(_LOADED[tag]):
            self.loaded.append(values[_LOADED[tag]])
        if tag == "link" and values.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(values.get("href", ""))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if _ADDRESS_IN_CSS.search(values.get("style", "")):
            self.loaded.append(values["style"])


def site_problems(site: Path) -> list[str]:
    """Return what the built site loads from outside, and links that lead nowhere."""
    problems = [
        f"{path.relative_to(site)}: loads from the network"
        for path in sorted(site.rglob("*.css"))
        if _ADDRESS_IN_CSS.search(path.read_text("utf-8"))
    ]
    pages = {
        path: _Page(path.read_text("utf-8"))
        for path in sorted(site.rglob("*.html"))
        if path.name != "404.html"  # served at any address, so its links are absolute
    }
    if not pages:
        problems.append(f"{site} has no pages")
    for path, page in pages.items():
        name = path.relative_to(site)
        for address in page.loaded:
            if urlsplit(address).scheme not in ("", "data") or address[:2] == "//":
                problems.append(f"{name}: loads {address}")
            elif not urlsplit(address).scheme:
                problems += _missing(path, address, pages, site)
        for address in page.links:
            if not urlsplit(address).scheme and address[:2] != "//":
                problems += _missing(path, address, pages, site)
    return problems


def _missing(
    path: Path, address: str, pages: dict[Path, _Page], site: Path
) -> list[str]:
    parts = urlsplit(address)
    target = path
    if parts.path:
        target = Path(os.path.normpath(path.parent / unquote(parts.path)))
    if target.is_dir():
        target = target / "index.html"
    name = path.relative_to(site)
    if not target.exists():
        return [f"{name}: there is no {address}"]
    anchor = unquote(parts.fragment)
    # Anchors that begin with __ belong to the theme's scripts.
    wanted = anchor and not anchor.startswith("__") and target in pages
    if wanted and anchor not in pages[target].anchors:
        return [f"{name}: {address} has no such anchor"]
    return []


def main() -> int:
    """Check, print what is wrong, and return the exit code."""
    problems = source_problems()
    for folder in sys.argv[1:]:
        problems += site_problems(Path(folder).resolve())
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"links: {len(problems)} problems" if problems else "links: fine")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
