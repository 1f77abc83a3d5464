"""Java's key stores, made PEM as docs/pipelines.md says, open a listener that asks for certificates."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from headwater.client.cluster import Cluster
from headwater.client.errors import BadOption
from headwater.client.options import Options
from tests.compat.missing import CANNOT, skip_or_fail
from tests.security.servers import Certificates, Secured

PAGE = Path(__file__).parents[2] / "docs" / "pipelines.md"
PASSWORD = "store-pass-word"


def run(script: str, folder: Path) -> None:
    environment = {**os.environ, "PASSWORD": PASSWORD}
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def settings(server: Secured, **given: str) -> dict[str, str]:
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}
    named |= {"kafka.bootstrap.servers": server.listeners["MTLS"]}
    return Options({**named, "kafka.security.protocol": "SSL"}).client_settings()


def test_the_commands_of_the_page_make_pem_files_of_java_stores(
    ours: Secured, certificates: Certificates, tmp_path: Path
):
    if shutil.which("keytool") is None:
        skip_or_fail(f"Java's keytool {CANNOT}: it is not installed")
    bundle, ca = certificates.client.bundle, certificates.authority.certificate
    run(
        f"""openssl pkcs12 -export -in {bundle} -passout env:PASSWORD -name client -out own.p12
        keytool -importkeystore -noprompt -srckeystore own.p12 -srcstorepass $PASSWORD \
            -destkeystore client.jks -deststoretype JKS -deststorepass $PASSWORD
        keytool -importcert -noprompt -alias ca -file {ca} -keystore trust.jks -storepass $PASSWORD""",
        tmp_path,
    )
    with pytest.raises(BadOption, match="only Java reads"):
        Cluster(settings(ours, ssl_truststore_location=str(tmp_path / "trust.jks"))).metadata([])
    (commands,) = re.findall(r"```bash no-run\n(keytool .*?)```", PAGE.read_text(), re.DOTALL)
    run(commands, tmp_path)
    stores = {
        "ssl_keystore_location": str(tmp_path / "client.pem"),
        "ssl_truststore_location": str(tmp_path / "ca.pem"),
    }
    cluster = Cluster(settings(ours, **stores))
    try:
        assert cluster.metadata([]).topics == {}
    finally:
        cluster.close()
