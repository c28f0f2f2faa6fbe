"""Where training reports to."""

from pathlib import Path

import pytest

from support.training import Site, directory_site, s3_site


@pytest.fixture
def directory(tmp_path: Path) -> Site:
    """A fleet root in a directory that is not there yet."""
    return directory_site(tmp_path)


@pytest.fixture(params=["a directory", "S3"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    """A fleet root in a directory, then one in a bucket of its own."""
    if request.param == "a directory":
        return directory_site(tmp_path)
    return s3_site(tmp_path, request.getfixturevalue("s3_server"))
