"""Relative links in the documentation lead somewhere, headings included."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Names of the headings of a page, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+\s+(.+?)\s*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found = []
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path):
    assert broken(page) == []


def test_a_broken_link_would_be_found(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](nowhere.md) [b](#a-title) [c](#other) [d](https://x.org)\n")

    assert broken(page) == ["nowhere.md", "#other"]
