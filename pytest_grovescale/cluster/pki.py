"""Keys and certificates of a local control plane, created in memory; EC P-256 throughout.

Every component and the harness has an identity of its own: all have full access (``system:masters``), and the audit log
distinguishes them.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..atomic_write import write_private

_ALL = "system:masters"
_LIFETIME = datetime.timedelta(days=365)
# Tolerates clocks that are slightly behind.
_BACKDATED = datetime.timedelta(minutes=10)


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key, PEM. ``key_pem`` is a secret."""

    cert_pem: str
    key_pem: str

    def __repr__(self) -> str:
        return "Pair(…)"


class Pki(msgspec.Struct, frozen=True, kw_only=True):
    """Keys and certificates of a control plane. Contains secrets."""

    ca_pem: str
    server: Pair
    clients: dict[str, Pair]
    """User name → certificate, all in the group system:masters."""
    service_account_key_pem: str
    service_account_public_pem: str

    def __repr__(self) -> str:
        return f"Pki(clients={sorted(self.clients)})"


def create(clients: Sequence[str], *, service_ip: str) -> Pki:
    """Return a new CA, a server certificate for 127.0.0.1, localhost and ``service_ip``, and one for each client."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("grovescale-ca")
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .add_extension(_usage(authority=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )

    hosts = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address(service_ip)),
    ]
    signer = ec.generate_private_key(ec.SECP256R1())
    public = signer.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return Pki(
        ca_pem=_cert_pem(ca),
        server=_issue(ca_name, ca_key, _name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, hosts),
        clients={user: _issue(ca_name, ca_key, _name(user, _ALL), ExtendedKeyUsageOID.CLIENT_AUTH) for user in clients},
        service_account_key_pem=_key_pem(signer),
        service_account_public_pem=public.decode(),
    )


def client(user: str, *, ca_pem: str, ca_key_pem: str) -> Pair:
    """Return a client certificate with full access, signed by an existing cluster's certificate authority.

    Raises ValueError for an invalid certificate or key, TypeError for a key other than RSA or EC.
    """
    authority = x509.load_pem_x509_certificate(ca_pem.encode())
    key = serialization.load_pem_private_key(ca_key_pem.encode(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise TypeError(f"a key of type {type(key).__name__} signs no certificates here")
    return _issue(authority.subject, key, _name(user, _ALL), ExtendedKeyUsageOID.CLIENT_AUTH)


def write(pki: Pki, folder: Path) -> None:
    """Write ca.crt, server.{crt,key}, sa.{key,pub} and <user>.{crt,key}, 0600 in a 0700 folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    pairs = {"server": pki.server, **pki.clients}
    texts = {"ca.crt": pki.ca_pem, "sa.key": pki.service_account_key_pem, "sa.pub": pki.service_account_public_pem}
    texts |= {f"{name}.crt": pair.cert_pem for name, pair in pairs.items()}
    texts |= {f"{name}.key": pair.key_pem for name, pair in pairs.items()}
    for name, text in texts.items():
        write_private(folder / name, text)


def _issue(
    ca_name: x509.Name,
    ca_key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
    name: x509.Name,
    usage: x509.ObjectIdentifier,
    hosts: Sequence[x509.GeneralName] = (),
) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(name, ca_name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(_usage(authority=False), critical=True)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return Pair(_cert_pem(builder.sign(ca_key, hashes.SHA256())), _key_pem(key))


def _name(common_name: str, group: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if group:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(attributes)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LIFETIME)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _cert_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
