"""Files that are written for somebody: through links, and in the place of nothing else."""

from __future__ import annotations

import pytest

import outfiles
from edgesweep_agent import outfile


@pytest.mark.parametrize("holds", outfiles.ALL, ids=lambda holds: holds.__name__)
def test_a_file_is_written(holds, tmp_path):
    holds(outfile, tmp_path)


def test_a_dash_is_standard_output(capfdbinary):
    outfiles.to_standard_output(outfile, capfdbinary.readouterr)
