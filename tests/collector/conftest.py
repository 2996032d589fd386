from __future__ import annotations

import pytest

from edgesweep_collector.archive.archive import Archive
from postgres import needs_postgres


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def database_url(request, tmp_path):
    """An empty database of either kind, for what has to hold on both."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'archive.db'}"
    server = request.getfixturevalue("postgres")
    return server.url(server.new_database())


@pytest.fixture
def either_archive(database_url):
    opened = Archive.open(database_url)
    yield opened
    opened.close()
