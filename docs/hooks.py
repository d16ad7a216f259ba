"""
Pages outside of docs as pages of the site: README is its front page, and SECURITY, CHANGELOG and the like are in
``project``. Links between the pages are written for readers of the repository, and rewritten here.
"""

import os
import re
from pathlib import Path, PurePosixPath
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PROJECT: Final = Path(__file__).parents[1]
_LINK: Final = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?\)")
_README: Final = "README.md"  # the front page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the project that a page refers to."""
    wanted = {_README}
    pages = [PROJECT / _README, *(PROJECT / "docs").rglob("*.md")]
    while pages:
        page = pages.pop()
        for found in _LINK.finditer(page.read_text()):
            target = Path(os.path.normpath(page.parent / found[2]))
            name = str(target.relative_to(PROJECT))
            if target.is_file() and not name.startswith("docs/") and name not in wanted:
                wanted.add(name)
                pages += [target] if target.suffix == ".md" else []
    for name in sorted(wanted):
        files.append(File.generated(config, _place(name), abs_src_path=str(PROJECT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page for its place in the site."""
    place = PurePosixPath(page.file.src_uri)
    here = _name(place)

    def rewritten(found: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(here), found[2]))
        link = os.path.relpath(_place(target), place.parent)
        return f"{found[1]}{link}{found[3] or ''})"

    return _LINK.sub(rewritten, markdown)


def _place(name: str) -> str:
    """Return the place in the site of a file of the project."""
    if name == _README:
        return name
    return name.removeprefix("docs/") if name.startswith("docs/") else f"project/{name}"


def _name(place: PurePosixPath) -> str:
    """Return the file of the project at a place in the site: the inverse of ``_place``."""
    if str(place) == _README:
        return _README
    return str(place.relative_to("project")) if place.parts[0] == "project" else f"docs/{place}"
