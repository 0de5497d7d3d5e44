import pytest

from benchmarks.explain import fragmented, judged


@pytest.mark.parametrize("seed", [5, 11, 24])
def test_every_offered_fix_starts_the_job_and_no_cheaper_single_change_is_missed(seed):
    judgements = list(judged(fragmented(seed)))

    assert [fault for _, _, faults, _ in judgements for fault in faults] == []
    assert [missed for _, _, _, missing in judgements for missed in missing] == []


def test_a_cluster_full_of_gangs_leaves_jobs_to_explain():
    assert any(told.fixes for _, told, _, _ in judged(fragmented(5)))
