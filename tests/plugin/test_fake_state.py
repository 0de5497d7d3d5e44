"""A state file of fake GPUs is read, or refused with the key that is wrong."""

from pathlib import Path

import pytest

from plugin.devices.fake import FakeSource
from plugin.devices.fake_state import StateError, read_state
from topology.presets import preset


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deep|not JSON"),
        ("[]", "an object"),
        ('{"lots": [1]}', "lots: unknown key. Known here: driver"),
        ('{"lost": 3}', "lost: a list of GPU numbers"),
        ('{"lost": [-1]}', "lost: a list of GPU numbers"),
        ('{"slow_s": "long"}', "slow_s: a number of seconds"),
        ('{"xids": [{"gpu": 0}]}', "xids: a list"),
        ('{"mig": {"0": [{"profile": "3g.40gb"}]}}', "mig: GPU numbers"),
        ('{"mig": {"x": []}}', "mig: GPU numbers"),
        ('{"processes": [{"pid": 1}]}', "processes: a list"),
        ('{"driver": null}', "driver: a text"),
    ],
)
def test_a_wrong_state_is_refused(tmp_path: Path, text: str, said: str):
    file = tmp_path / "state.json"
    file.write_text(text)

    with pytest.raises(StateError, match=said):
        read_state(file)


def test_while_it_is_followed_the_last_good_one_holds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    file = tmp_path / "state.json"
    file.write_text('{"lost": [1]}')
    source = FakeSource(preset("t4"), file)
    assert source.scan().gpus[1].fault

    file.write_text('{"lost": ')

    assert source.scan().gpus[1].fault
    source.scan()
    assert len([one for one in caplog.records if "the last good one holds" in one.message]) == 1
