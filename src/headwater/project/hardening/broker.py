"""Lines of the hardening list that are about the broker: who gets in, what they may, what is kept."""

from __future__ import annotations

from headwater.broker.security.listeners import Listener, from_settings, option, single
from headwater.broker.settings import Settings
from headwater.project.file import Project
from headwater.project.hardening.findings import failed, fine
from headwater.project.ports import is_loopback
from headwater.project.values import Finding


def _listeners(project: Project) -> list[Listener]:
    settings = Settings(dict(project.settings))
    found = (
        from_settings(settings) if "listeners" in project.settings else single(project.listen, None)
    )
    for each in found:
        each.demands_certificate = (
            each.encrypted and option(settings, each, "ssl.client.auth") == "required"
        )
    return found


def broker_tls(project: Project) -> Finding:
    name = "broker: TLS and login"
    if project.bootstrap is not None:
        return fine(name, f"the log at {project.bootstrap} is run by somebody else")
    if project.settings.get("headwater.insecure", "").lower() == "true":
        return failed(name, "headwater.insecure lets anybody in", "take it out of [log.settings]")
    for each in _listeners(project):
        if not is_loopback(each.host) and not (each.encrypted and each.authenticated):
            return failed(
                name,
                f"{each.protocol}://{each.host or '*'}:{each.port} is reached from other machines",
                f'in [log.settings]: listeners = "SASL_SSL://{each.host}:{each.port}" and '
                '"ssl.keystore.location" = "/…/server.pem"; or listen at 127.0.0.1',
            )
    return fine(name, "what listens beyond this machine is encrypted and asks who is there")


def authorizer(project: Project) -> Finding:
    name = "broker: authorizer"
    if project.bootstrap is not None:
        return fine(name, "the log's own business")
    if all(is_loopback(each.host) for each in _listeners(project)):
        return fine(name, "only this machine reaches the log")
    remedy = 'in [log.settings]: "authorizer.class.name" = "acl" and "super.users" = "User:…"'
    if not project.settings.get("authorizer.class.name"):
        return failed(name, "whoever logs in may do everything", remedy)
    if project.settings.get("allow.everyone.if.no.acl.found", "").lower() == "true":
        return failed(
            name,
            "what no ACL speaks of is open to everybody",
            "take allow.everyone.if.no.acl.found out of [log.settings]",
        )
    return fine(name, "only what an ACL allows is allowed")


def durability(project: Project) -> Finding:
    name = "broker: durability"
    if project.settings.get("durability", "disk") == "os":
        remedy = 'in [log.settings]: durability = "disk"'
        return failed(name, "acknowledged records go with the power", remedy)
    return fine(name, "acknowledged means on disk")


def free_space(project: Project) -> Finding:
    name = "broker: free space"
    if project.settings.get("log.min.free.bytes") == "0":
        remedy = 'in [log.settings]: take "log.min.free.bytes" = 0 out'
        return failed(name, "the log may fill its disk to the last byte", remedy)
    return fine(name, "writes end before the disk is full")


def audit(project: Project) -> Finding:
    name = "broker: audit"
    if project.bootstrap is None:
        return fine(name, "__headwater_audit is kept for ever, and only the broker writes it")
    return fine(name, f"give __headwater_audit retention.ms=-1 at {project.bootstrap}")
