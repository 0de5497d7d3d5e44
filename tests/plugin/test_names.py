"""Names that the kubelet takes, and sockets that it can reach."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.errors import ConfigError, SocketPathError
from plugin.names import (
    MAX_SOCKET_BYTES,
    device_of,
    mig_suffix,
    new_socket_path,
    profile_of,
    resource_name,
    share_id,
)
from topology.mig.tables import mig_table, supported

PROFILES = st.builds(
    lambda part, slices, gb, extra: f"{part}{slices}g.{gb}gb{extra}",
    st.sampled_from(["", "1c.", "2c."]),
    st.integers(1, 7),
    st.integers(5, 288),
    st.sampled_from(["", "+me", "-me", "+me.all", "+gfx"]),
)


@given(PROFILES)
def test_a_profile_and_its_resource_name_are_one_to_one(profile: str):
    suffix = mig_suffix(profile)

    assert profile_of(suffix) == profile
    assert "+" not in suffix
    assert resource_name("nvidia.com", suffix)


def test_c30_profiles_of_every_model_have_names_of_their_own():
    for model in supported():
        profiles = [profile.name for profile in mig_table(model).profiles]

        suffixes = [mig_suffix(profile) for profile in profiles]

        assert len(set(suffixes)) == len(profiles)
        assert [profile_of(suffix) for suffix in suffixes] == profiles
        assert all(resource_name("nvidia.com", suffix) for suffix in suffixes)


@pytest.mark.parametrize(
    "domain", ["kubernetes.io", "x.kubernetes.io", "requests.nvidia.com", "", "UPPER.com", "a/b"]
)
def test_domains_that_the_kubelet_refuses_are_refused_before(domain: str):
    with pytest.raises(ConfigError):
        resource_name(domain, "gpu")


def test_a_share_leads_to_its_device():
    assert device_of(share_id("MIG-abc", 12)) == "MIG-abc"
    assert device_of("GPU-abc") == "GPU-abc"


def test_7_7_no_two_starts_have_the_same_socket(tmp_path: Path):
    paths = {new_socket_path(Path("/k"), "nvidia.com/gpu") for _ in range(100)}

    assert len(paths) == 100


def test_7_7_a_path_that_is_too_long_is_refused_with_its_length():
    folder = Path("/" + "x" * 80)

    with pytest.raises(SocketPathError, match=f"at most {MAX_SOCKET_BYTES}"):
        new_socket_path(folder, "nvidia.com/gpu")


def test_the_longest_resource_fits_into_the_kubelet_s_folder():
    name = "nvidia.com/" + "g" * 40

    path = new_socket_path(Path("/var/lib/kubelet/device-plugins"), name)

    assert len(str(path)) <= MAX_SOCKET_BYTES
