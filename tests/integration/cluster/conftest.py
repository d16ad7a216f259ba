"""A Redis Cluster for the tests of a file, emptied for each, and a client of it."""

from collections.abc import Iterator

import pytest

from tests.builders.clusters import PREFIX, Cluster
from zsched import Client
from zsched.embedded.guard import Guard


@pytest.fixture(scope="module")
def standing_cluster() -> Iterator[Cluster]:
    with Guard() as guard:
        yield Cluster(guard, replicas=1)


@pytest.fixture
def cluster(standing_cluster: Cluster) -> Cluster:
    """The cluster of this file, emptied for this test; which node has the slot does not matter."""
    standing_cluster.empty()
    return standing_cluster


@pytest.fixture
def client(cluster: Cluster) -> Client:
    return Client.from_url(cluster.url, rq_prefix=PREFIX)
