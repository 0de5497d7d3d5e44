"""``/metrics``, ``/readyz`` and ``/healthz`` over plain HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

from plugin.errors import PluginError
from plugin.metrics import Metrics

MAX_REQUEST_BYTES = 8192
TIMEOUT_S = 5.0


class StatusServer:
    """Answers GET requests; anything else is refused.

    Parameters
    ----------
    unready
        Says why the plugin is not ready; empty when it is.
    notes
        Says what an operator should know besides.
    """

    def __init__(
        self,
        metrics: Metrics,
        unready: Callable[[], Mapping[str, str]],
        notes: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._metrics, self._unready, self._notes = metrics, unready, notes
        self.port = 0

    @contextlib.asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[None]:
        """Serve while inside; port 0 serves nothing.

        Raises
        ------
        PluginError
            The address is taken, or not ours.
        """
        if port == 0:
            yield
            return
        try:
            server = await asyncio.start_server(self._client, host, port, limit=MAX_REQUEST_BYTES)
        except OSError as error:
            # asyncio's text repeats the address; what it says last is the reason.
            reason = str(error.strerror or error).rpartition(": ")[2]
            text = f"--http-host, --http-port: {host}:{port} cannot be served: {reason}"
            raise PluginError(text) from error
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = self.answer(head.split(b"\r\n", 1)[0].decode("latin-1"))
                lines = (
                    f"HTTP/1.1 {status}",
                    f"Content-Type: {kind}",
                    f"Content-Length: {len(body)}",
                    "Connection: close",
                )
                writer.write("\r\n".join((*lines, "", "")).encode() + body)
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that does not finish its request gets no answer
        finally:
            writer.close()

    def answer(self, request: str) -> tuple[str, str, bytes]:
        """Status, content type and body for the first line of a request."""
        plain = "text/plain; charset=utf-8"
        words = request.split(" ")
        if len(words) != 3 or words[0] != "GET":
            return "405 Method Not Allowed", plain, b"only GET\n"
        path = words[1].split("?", 1)[0]
        if path == "/metrics":
            return "200 OK", "text/plain; version=0.0.4; charset=utf-8", self._metrics.text()
        if path == "/healthz":
            return "200 OK", plain, b"ok\n"
        if path == "/readyz":
            unready = self._unready()
            text = "".join(f"{what}: {why}\n" for what, why in sorted(unready.items())) or "ok\n"
            text += "".join(f"note: {note}\n" for note in self._notes())
            return ("503 Service Unavailable" if unready else "200 OK"), plain, text.encode()
        return "404 Not Found", plain, b"/metrics, /readyz, /healthz\n"
