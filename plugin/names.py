"""Names on the wire: resources, device IDs, MIG profiles as resource names, sockets."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from plugin.errors import ConfigError, SocketPathError

MAX_SOCKET_BYTES = 107
"""Longest path of a Unix socket: ``sun_path`` has 108 bytes, one of them the closing zero."""

MAX_RESOURCE_NAME = 63
"""Longest whole resource name, as NVIDIA's plugin has it; the kubelet takes more."""

REPLICA_MARK = "::"
"""Between a device's ID and the number of its share."""

SOCKET_MARK = "unstrand_"
"""Our sockets begin with this; ``_`` is in no domain name, so fields stay apart."""

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PROFILE_SUFFIX = re.compile(r"mig-((?:\d+c\.)?\d+g\.\d+gb)(?:([.-])(.+))?")


def resource_name(domain: str, suffix: str) -> str:
    """Name of an extended resource, ``domain/suffix``, checked.

    Raises
    ------
    ConfigError
        The kubelet, or NVIDIA's conventions, would refuse the name.

    Examples
    --------
    >>> resource_name("nvidia.com", "mig-1g.10gb")
    'nvidia.com/mig-1g.10gb'
    """
    name = f"{domain}/{suffix}"
    if "kubernetes.io" in domain or domain.startswith("requests."):
        raise ConfigError((), f'"{domain}": the kubelet keeps this domain to itself')
    if not is_subdomain(domain) or not is_subdomain(suffix):
        raise ConfigError((), f'"{name}": not a domain, a slash and a name in lower case')
    if len(name) > MAX_RESOURCE_NAME:
        raise ConfigError((), f'"{name}": longer than {MAX_RESOURCE_NAME} characters')
    return name


def is_subdomain(name: str) -> bool:
    """Whether a name may stand before or after the slash of a resource."""
    return _SUBDOMAIN.fullmatch(name) is not None


def mig_suffix(profile: str) -> str:
    """Resource name of a MIG profile, without domain: ``+`` is no legal character there.

    Examples
    --------
    >>> mig_suffix("1g.10gb"), mig_suffix("1g.10gb+me"), mig_suffix("1g.24gb-me")
    ('mig-1g.10gb', 'mig-1g.10gb.me', 'mig-1g.24gb-me')
    """
    return f"mig-{profile.replace('+', '.')}"


def profile_of(suffix: str) -> str:
    """MIG profile behind a resource name; the inverse of `mig_suffix`.

    Raises
    ------
    ConfigError
        The name is not that of a profile.

    Examples
    --------
    >>> profile_of("mig-1g.10gb.me"), profile_of("mig-1g.24gb-me")
    ('1g.10gb+me', '1g.24gb-me')
    """
    match = _PROFILE_SUFFIX.fullmatch(suffix)
    if match is None:
        raise ConfigError((), f'"{suffix}": no resource name of a MIG profile')
    base, mark, extra = match.groups()
    return base if mark is None else f"{base}{'-' if mark == '-' else '+'}{extra}"


def share_id(device_id: str, share: int) -> str:
    """ID of one share of a device."""
    return f"{device_id}{REPLICA_MARK}{share}"


def device_of(share: str) -> str:
    """ID of the device behind a share (or behind a device that is not shared)."""
    return share.split(REPLICA_MARK, 1)[0]


def socket_prefix(domain: str) -> str:
    """Beginning of the file names of all our sockets for a domain."""
    return f"{SOCKET_MARK}{domain}_"


def new_socket_path(folder: Path, resource: str) -> Path:
    """Path for the next socket of a resource; no two are ever the same.

    A server that stops unlinks the *path* it was bound to, whoever owns it by then, and newer
    kubelets refuse a path whose old stream is still alive: hence a new name at every start.

    Raises
    ------
    SocketPathError
        The path is longer than a socket's may be.
    """
    domain, _, suffix = resource.partition("/")
    path = folder / f"{socket_prefix(domain)}{suffix}_{secrets.token_hex(4)}.sock"
    size = len(str(path).encode())
    if size > MAX_SOCKET_BYTES:
        raise SocketPathError(
            f"{path}: {size} bytes, but a socket's path has at most {MAX_SOCKET_BYTES}. "
            "Choose a shorter --kubelet-dir"
        )
    return path
