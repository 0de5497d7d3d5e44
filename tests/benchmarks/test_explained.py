import pytest

from benchmarks.explain import fragmented, judged


@pytest.mark.parametrize("seed", [5, 11, 24])
def test_every_offered_fix_starts_the_job_and_no_cheaper_single_change_is_missed(seed):
    judgements = list(judged(fragmented(seed)))

    assert [fault for _, _, faults, _ in judgements for fault in faults] == []
    assert [missed for _, _, _, missing in judgements for missed in missing] == []


def test_a_cluster_full_of_gangs_leaves_jobs_to_explain():
    assert any(told.fixes for _, told, _, _ in judged(fragmented(5)))


@pytest.mark.parametrize(
    ("seed", "name", "kind", "text"),
    [
        (77, "job-1", "uncordon", "uncordon n3"),
        (192, "job-2", "uncordon", "uncordon n1"),
        (199, "job-1", "uncordon", "uncordon n2"),
        (98, "job-2", "lower-min", "start with 1 replica instead of 3"),
        (242, "job-1", "lower-request", "ask for 1 GPU per replica instead of 2 GPUs"),
        (242, "job-1", "raise-quota", "raise the limit of a from 4 GPUs to 6 GPUs"),
    ],
    ids=[
        "an earlier job takes the uncordoned node",
        "an earlier job makes room for it",
        "an earlier gang leaves a replica's room",
        "what the plan moves goes elsewhere",
        "the plan passed it over: less",
        "the plan passed it over: more",
    ],
)
def test_a_fix_that_needs_others_to_go_elsewhere_is_found(seed, name, kind, text):
    told = {job: told for job, told, _, _ in judged(fragmented(seed))}

    assert text in [fix.text for fix in told[name].fixes if fix.kind == kind]
