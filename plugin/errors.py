"""What can go wrong in the plugin; none of it ends the serving process."""

from __future__ import annotations


class PluginError(Exception):
    """Root of the package's errors; the message is one line for operators."""


class DriverError(PluginError):
    """The driver's library cannot be used: absent, of another version, or without a device."""


class ConfigError(PluginError):
    """A key or value of a config file is wrong.

    Parameters
    ----------
    path
        Keys that lead to it, outermost first.
    rule
        What should have been there.
    hint
        The way out, a sentence; may be empty.
    """

    def __init__(self, path: tuple[str | int, ...], rule: str, hint: str = "") -> None:
        self.path, self.rule, self.hint = path, rule, hint
        where = ".".join(str(step) for step in path) or "the file"
        super().__init__(f"{where}: {rule}" + (f". {hint}" if hint else ""))


class SocketPathError(PluginError):
    """A socket's path is longer than the system can bind."""


class UnknownDeviceError(PluginError):
    """The kubelet asks for an ID that is not advertised."""


class RequestRefusedError(PluginError):
    """The config forbids what a container asks for."""
