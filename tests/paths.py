"""Where tests find data: the shared reference beside the checkout, and the project's own."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
needs_shared = pytest.mark.skipif(
    not SHARED.exists(), reason="the shared reference data is not here"
)
