"""Who can reach the server: programs of this machine; those of others only with a key, and over TLS."""

from __future__ import annotations

import ssl

from twinvec.errors import ConfigurationError
from twinvec_serve.safety.addresses import is_loopback, parse_origin
from twinvec_serve.settings import ServeSettings


def check_exposure(settings: ServeSettings) -> None:
    """Refuse settings under which keys or texts could be read by others.

    Raises:
        ConfigurationError: the address is reached from other machines, without a key or without TLS; or the files of
            TLS cannot be used; or an origin is malformed.
    """
    for origin in settings.allow_origins:
        parse_origin(origin)
    _check_tls(settings)
    if is_loopback(settings.host):
        return
    reached = f"--host {settings.host} is reached from other machines"
    if not settings.read_keys and not settings.write_keys:
        raise ConfigurationError(
            f"{reached}, and the server has no key: give --api-key-file FILE, or set TWINVEC_API_KEY"
        )
    if settings.tls_cert is None and not settings.behind_proxy:
        raise ConfigurationError(
            f"{reached}, and keys and texts would travel in plain sight: give --tls-cert FILE and --tls-key FILE, or "
            "--behind-proxy if a proxy in front of the server speaks TLS"
        )


def _check_tls(settings: ServeSettings) -> None:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ConfigurationError("give both --tls-cert FILE and --tls-key FILE")
    if settings.tls_cert is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"the certificate {settings.tls_cert} cannot be used with the key {settings.tls_key}: "
            f"{error.strerror or error}"
        ) from error
