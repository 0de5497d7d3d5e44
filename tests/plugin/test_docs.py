"""The table of XIDs on the page is the table of the code."""

from pathlib import Path

from plugin.xids import XIDS

PAGE = Path(__file__).parents[2] / "docs" / "plugin.md"


def test_every_xid_is_on_the_page_with_its_reason():
    lines = PAGE.read_text(encoding="utf-8").splitlines()

    for xid, row in XIDS.items():
        assert f"| {xid} | {row.reason} | {row.action.value} |" in lines
