"""Where training reports to."""

from pathlib import Path

import pytest

from support.s3 import S3Server
from support.training import Site, directory_site, s3_site


@pytest.fixture
def directory(tmp_path: Path) -> Site:
    """A fleet root in a directory that is not there yet."""
    return directory_site(tmp_path)


@pytest.fixture
def in_s3(tmp_path: Path, s3_server: S3Server) -> Site:
    """A fleet root in a bucket of its own."""
    return s3_site(tmp_path, s3_server)


@pytest.fixture(params=["directory", "in_s3"], ids=["a directory", "S3"])
def site(request: pytest.FixtureRequest) -> Site:
    """One after the other, where a request that is under way makes a difference."""
    made: Site = request.getfixturevalue(request.param)
    return made
