"""Who can reach the server: programs of this machine, and other machines only with a key and over TLS."""

from __future__ import annotations

import logging
import ssl
from datetime import UTC, datetime
from pathlib import Path

from twinvec.errors import ConfigurationError
from twinvec_serve.safety.addresses import is_local, parse_origin
from twinvec_serve.settings import ServeSettings

logger = logging.getLogger(__name__)

_REASONS = {
    None: "expected a certificate and a private key in PEM",
    "KEY_VALUES_MISMATCH": "it is the key of another certificate",
}
"""Reason of OpenSSL -> wording of the error; other reasons are quoted."""


def check_exposure(settings: ServeSettings) -> None:
    """Raise ConfigurationError for settings under which others could read keys or texts.

    Such settings let other machines reach the server, directly or through a proxy, without a key or without TLS.
    Unusable TLS files and a malformed origin are errors too.
    """
    for origin in settings.allow_origins:
        parse_origin(origin)
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ConfigurationError("give both --tls-cert FILE and --tls-key FILE")
    if settings.tls_cert is not None and settings.tls_key is not None:
        tls_context(settings.tls_cert, settings.tls_key)
    if not is_local(settings.host):
        reached = f"--host {settings.host} is reached from other machines"
    elif settings.behind_proxy:
        reached = "--behind-proxy: others reach the server through the proxy"
    else:
        return
    if not settings.read_keys and not settings.write_keys:
        raise ConfigurationError(
            f"{reached}, and the server has no key: give --api-key-file FILE, or set TWINVEC_API_KEY"
        )
    if settings.tls_cert is None and not settings.behind_proxy:
        raise ConfigurationError(
            f"{reached}, and keys and texts would be sent unencrypted: give --tls-cert FILE and --tls-key FILE, or "
            "--behind-proxy if a proxy in front of the server speaks TLS"
        )


def tls_context(cert: Path, key: Path) -> ssl.SSLContext:
    """Return a context with a certificate and its private key; raise ConfigurationError if they are unusable.

    A certificate that has expired gets a warning.
    """

    def refuse_pass_phrase() -> str:  # without this, OpenSSL would ask for a pass phrase at the terminal
        raise ConfigurationError(
            f"{key}: the key has a pass phrase; give a key without one (openssl pkey -in {key} -out FILE makes it)"
        )

    for file in (cert, key):
        try:
            file.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from error
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key, refuse_pass_phrase)
    except ssl.SSLError as error:
        reason = _REASONS.get(error.reason, error.strerror)
        raise ConfigurationError(f"the certificate {cert} cannot be used with the key {key}: {reason}") from error
    _warn_if_expired(cert)
    return context


def _warn_if_expired(cert: Path) -> None:
    """Warn if the first certificate of a file, which is the server's own, has expired."""
    # imported here, because most servers do not need it
    from cryptography.x509 import InvalidVersion, load_pem_x509_certificates

    try:
        ended = load_pem_x509_certificates(cert.read_bytes())[0].not_valid_after_utc
    except (ValueError, InvalidVersion):  # OpenSSL, which is less strict, has accepted the certificate
        return
    if ended < datetime.now(UTC):
        logger.warning(
            "the certificate %s expired on %s: clients refuse it; renew it",
            cert,
            ended.date(),
        )
