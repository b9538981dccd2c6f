"""Keys and certificates: who is who, for which hosts, and that they work together."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pytest_grovescale.cluster import pki


@pytest.fixture(scope="module")
def made() -> pki.Pki:
    return pki.create(["harness", "kwok"], service_ip="10.0.0.1")


def test_clients_are_distinguished_and_may_do_everything(made: pki.Pki) -> None:
    for user, pair in made.clients.items():
        subject = x509.load_pem_x509_certificate(pair.cert_pem.encode()).subject
        assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == user
        assert subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:masters"


def test_server_is_loopback_and_the_service(made: pki.Pki) -> None:
    certificate = x509.load_pem_x509_certificate(made.server.cert_pem.encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["localhost", "127.0.0.1", "10.0.0.1"]
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)


def test_all_are_signed_by_the_one_authority(made: pki.Pki) -> None:
    authority = x509.load_pem_x509_certificate(made.ca_pem.encode())
    for pair in (made.server, *made.clients.values()):
        x509.load_pem_x509_certificate(pair.cert_pem.encode()).verify_directly_issued_by(authority)


def test_each_cluster_has_an_authority_of_its_own(made: pki.Pki) -> None:
    other = pki.create([], service_ip="10.0.0.1")
    authority = x509.load_pem_x509_certificate(other.ca_pem.encode())
    with pytest.raises(InvalidSignature):
        x509.load_pem_x509_certificate(made.server.cert_pem.encode()).verify_directly_issued_by(authority)


def test_files_are_private_and_fit_together(made: pki.Pki, tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    pki.write(made, folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    for name in ("server", "harness", "kwok"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")


def test_secrets_do_not_show(made: pki.Pki) -> None:
    assert "PRIVATE" not in repr(made) + repr(made.server)
