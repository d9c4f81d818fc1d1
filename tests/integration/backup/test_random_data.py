"""A few sets of the campaign, of one minor, one stored in S3, the last with users. `make verify`
runs all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import campaign
import memory
import pytest
from campaign import Campaign
from minors import MINORS, NEWEST
from random_sets import Picture, difference

from localkube.s3 import S3Server

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory, s3: S3Server) -> Iterator[Campaign]:
    with memory.folder(tmp_path_factory.mktemp("sets")) as root:
        yield Campaign(root, s3)


@pytest.mark.parametrize("seed", range(MINORS.index(NEWEST), 9, len(MINORS)))
async def test_random_data_is_restored_completely_and_a_damaged_backup_is_refused(
    sets: Campaign, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign.sources, "open_channels", sets.open_channels)

    found = await sets.one(seed)

    assert (found["wrong"], found["not refused"]) == ("", [])
    assert found["store"] == ("S3" if seed % 2 else "Volume")
    assert found["keys"] > 0
    assert len(found["damages"]) >= 20


def test_every_kind_of_difference_is_found() -> None:
    before = Picture(9, [(b"k", b"v", 1, 2, 1, 7)], {7: (1000, [b"k"])}, {"user a": ["some"]})
    after = replace(before, revision=109)

    assert difference(before, after, 100) == ""
    assert difference(before, before, 100)
    assert difference(before, replace(after, keys=[(b"k", b"v", 1, 3, 1, 7)]), 100)
    assert difference(before, replace(after, leases={}), 100)
    assert difference(before, replace(after, users={"user a": []}), 100)
