"""Certificates of a kind cluster's own authority: one for each role, which the API server believes."""

from __future__ import annotations

import datetime
import stat
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import state
from pytest_grovescale.cluster.kind import provision
from pytest_grovescale.cluster.kind.provision import Authority
from pytest_grovescale.errors import ClusterError
from tests.golden import masked

LIFETIME = datetime.timedelta(hours=1)


@pytest.fixture(scope="module", params=["rsa", "ec"])
def authority(request: pytest.FixtureRequest) -> Authority:
    """As kubeadm makes one: RSA by default, EC where it is told so."""
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    if request.param == "rsa":
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    else:
        key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return Authority(certificate.public_bytes(serialization.Encoding.PEM).decode(), pem.decode())


def test_each_role_has_a_certificate_of_its_own(authority: Authority, tmp_path: Path) -> None:
    found = provision.write(tmp_path, name="mine", server="https://127.0.0.1:1", by=authority)
    assert set(found) == {"harness", "recorder", "kwok"}
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.encode())
    for user, access in found.items():
        certificate = x509.load_pem_x509_certificate(access.client_cert_pem.encode())
        certificate.verify_directly_issued_by(issuer)
        subject = {attribute.oid: attribute.value for attribute in certificate.subject}
        assert subject == {NameOID.COMMON_NAME: user, NameOID.ORGANIZATION_NAME: "system:masters"}
    for role in ("harness", "recorder"):
        assert state.access(tmp_path, role) == found[role]


def test_kubeconfigs_are_the_clusters_own_and_private(authority: Authority, tmp_path: Path) -> None:
    provision.write(tmp_path, name="mine", server="https://127.0.0.1:1", by=authority)
    for name in ("kubeconfig", "kwok.kubeconfig"):
        document = yaml.safe_load((tmp_path / name).read_text())
        assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert authority.key_pem not in "".join(path.read_text() for path in files)


def test_authority_that_is_none_is_reported(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(ClusterError) as caught:
        provision.write(tmp_path, name="mine", server="https://127.0.0.1:1", by=Authority("no PEM", "no PEM"))
    of_the_library = str(caught.value.__cause__)
    assert "PEM" in of_the_library
    assert masked(str(caught.value), {of_the_library: "reason"}) == snapshot
    assert "no PEM" not in repr(Authority("no PEM", "no PEM"))
