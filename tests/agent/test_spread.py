from __future__ import annotations

import pytest

from edgesweep_agent.core.spread import output_lengths


@pytest.mark.parametrize("n", [1, 2, 3, 11, 24, 257])
@pytest.mark.parametrize(("mean", "spread"), [(128, 0.25), (1, 0.25), (7, 0.9), (256, 0.0)])
def test_lengths_stay_within_the_spread_and_meet_the_mean(n, mean, spread):
    got = output_lengths("run/1/4", n, mean, spread)
    assert len(got) == n
    assert sum(got) == n * mean
    assert all(length >= 1 and abs(length - mean) <= spread * mean for length in got)


def test_lengths_cover_the_whole_range_evenly():
    """One deviation from each tenth of 0 to 100, up and down."""
    got = output_lengths("seed", 20, 400, 0.25)
    tenths = sorted((length - 400) // 10 for length in got if length >= 400)
    assert tenths == list(range(10))
    assert sorted(400 - length for length in got if length < 400) == sorted(
        length - 400 for length in got if length > 400
    )


def test_a_level_that_ends_early_has_met_the_mean_within_a_pair():
    got = output_lengths("seed", 100, 128, 0.25)
    assert all(abs(sum(got[:n]) - 128 * n) <= 32 for n in range(100))
    assert all(sum(got[:n]) == 128 * n for n in range(0, 100, 2))


def test_everyone_with_the_same_seed_gets_the_same():
    assert output_lengths("a", 50, 128, 0.25) == output_lengths("a", 50, 128, 0.25)
    assert output_lengths("a", 50, 128, 0.25) != output_lengths("b", 50, 128, 0.25)
    assert len(set(output_lengths("a", 50, 128, 0.25))) > 40
