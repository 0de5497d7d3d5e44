"""The verb `mig layouts`: profiles, counts, and the picture of slots."""

import json

from tests.commands.running import unstrand


def test_json_counts_the_base_profiles():
    done = unstrand("mig", "layouts", "H100-80GB", "--output", "json")
    found = json.loads(done.out)

    assert done.code == 0
    assert found["schema"] == "unstrand/mig-layouts/v1"
    assert (found["model"], found["slots"], found["compute"]) == ("H100-80GB", 8, 7)
    assert found["counts"] == {"placements": 297, "multisets": 37, "maximal": 19}
    assert found["profiles"][2]["starts"] == [0, 4]
    assert len(found["maximal_layouts"]) == 19


def test_all_profiles_are_counted_when_asked_for():
    found = json.loads(
        unstrand("mig", "layouts", "H100-80GB", "--all-profiles", "--output", "json").out
    )

    assert found["counts"] == {"placements": 2318, "multisets": 127, "maximal": 239}


def test_the_picture_shows_which_slots_an_instance_takes():
    lines = unstrand("mig", "layouts", "A30").out.splitlines()

    assert lines[0].startswith("A30-24GB: 4 memory slots, 4 compute slices; 25 layouts")
    assert any("[2g.12gb       ][1g.6gb][1g.6gb]" in line for line in lines)


def test_an_old_driver_has_fewer_layouts():
    found = json.loads(
        unstrand("mig", "layouts", "A100-40GB", "--driver", 470, "--output", "json").out
    )

    assert found["counts"]["placements"] == 296


def test_a_model_that_cannot_be_cut_is_bad_input():
    done = unstrand("mig", "layouts", "V100-16GB")

    assert done.code == 3
    assert done.err == "error: GPU model 'V100-16GB': it cannot be cut into MIG instances\n"
