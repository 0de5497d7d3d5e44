"""Whatever is done to a spec, the answer is a problem or a list of faults, one line each."""

import re

from hypothesis import given
from hypothesis import strategies as st

from specs.compile import compile_spec
from specs.errors import SpecErrors
from specs.loader import parse_spec
from tests.specs.reading import SPECS

TOUR = (SPECS / "cluster.yaml").read_text()
WORDS = [match.span() for match in re.finditer(r"[\w.\-]+", TOUR)]
SCRAPS = st.sampled_from(
    [
        *("null", "[]", "{}", "-1", "1.5", "0", "true", "'5'", "[1]", "{a: b}", "&a x", "*a"),
        *("1e3", "99999999999999999999", "nan", "\n", "\t", ":", "- ", "<<: {}", "!!int", "node"),
    ]
)


@given(place=st.sampled_from(WORDS), scrap=SCRAPS, gone=st.integers(0, len(TOUR)))
def test_a_spec_with_a_word_changed_and_a_piece_missing_is_read_or_refused(place, scrap, gone):
    start, end = place
    text = TOUR[:start] + scrap + TOUR[end:]
    text = text[:gone] + text[gone + 3 :]

    try:
        nodes, messages = compile_spec(parse_spec(text, "f.yaml", SPECS)).problem.nodes, []
    except SpecErrors as errors:
        nodes, messages = (), str(errors).split("\n")

    assert nodes or messages
    assert all(re.match(r"\S+:\d+:\d+: ", message) for message in messages)
    assert all(message.isprintable() for message in messages)
