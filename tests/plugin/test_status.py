"""What a probe and a scraper see."""

import asyncio
import time

import pytest

from plugin.metrics import Metrics
from plugin.status import StatusServer


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ("GET /healthz HTTP/1.1", "200", "ok"),
        ("GET /readyz HTTP/1.1", "503", "driver: no library"),
        ("GET /metrics HTTP/1.1", "200", 'unstrand_plugin_devices{health="healthy"'),
        ("GET /other HTTP/1.1", "404", ""),
        ("POST /metrics HTTP/1.1", "405", ""),
        ("nonsense", "405", ""),
    ],
)
def test_each_path_is_answered(line: str, status: str, text: str):
    metrics = Metrics()
    metrics.health("nvidia.com/gpu", {"healthy": 8})
    metrics.call("nvidia.com/gpu", "Allocate", time.perf_counter(), ok=True)

    told, _, body = StatusServer(metrics, lambda: {"driver": "no library"}).answer(line)

    assert told.startswith(status)
    assert text in body.decode()


def test_remarks_are_shown_and_do_not_make_it_unready():
    status = StatusServer(Metrics(), dict, lambda: ["GPU 3 is unmonitored"])

    told, _, body = status.answer("GET /readyz HTTP/1.1")

    assert told == "200 OK"
    assert body == b"ok\nnote: GPU 3 is unmonitored\n"


def test_it_is_served_over_http():
    async def ask() -> str:
        server = StatusServer(Metrics(), dict)
        async with server.listening("127.0.0.1", 18471):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = (await reader.read()).decode()
            writer.close()
            return answer

    assert asyncio.run(ask()).startswith("HTTP/1.1 200 OK\r\n")
