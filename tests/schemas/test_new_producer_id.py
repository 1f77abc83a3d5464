"""A writer whose transactional id begins anew with another producer id: nobody writes beside it."""

from contextlib import closing

from headwater.client import creation, transaction
from headwater.client.cluster import Cluster
from headwater.client.log import Log
from headwater.client.options import cluster_settings
from headwater.schemas import records, writer
from headwater.schemas.writer import Writer


def test_whoever_has_a_claim_of_the_old_producer_id_has_none_any_more(kafka, monkeypatch):
    monkeypatch.setattr(writer, "LEASE_S", 1.0)
    settings = cluster_settings(Log(kafka).settings, 20.0)
    with (
        closing(Writer(Cluster(settings), "turns")) as old,
        closing(Writer(Cluster(settings), "turns")) as new,
    ):
        creation.ensure_one(old._cluster, "turns", 1, {"cleanup.policy": "compact"})
        old.claim()
        was = old._claim.identity
        begin = transaction.begin
        monkeypatch.setattr(transaction, "begin", lambda c, name, ms: begin(c, f"{name}-anew", ms))
        new.claim()
        assert new._claim.identity.producer_id != was.producer_id and new._claim.identity.epoch == 0
        new.append([records.Record(b"k", b"v")])
        assert old.claim() is not None
