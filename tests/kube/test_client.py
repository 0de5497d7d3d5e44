"""A cluster asked live: pages, kinds that are not there, what may not be read."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from kube.client import live_objects
from specs.errors import SpecErrors
from tests.commands.running import unstrand
from tests.kube.objects import gang, node, pod, thing

TOKEN = "a-token-for-tests"


def bare(entry):
    """An item as the API lists it: the list names the kind."""
    return {key: value for key, value in entry.items() if key not in ("kind", "apiVersion")}


LISTS = {
    "/api/v1/nodes": ("v1", "NodeList", [bare(node(f"n{i}", 8)) for i in range(3)]),
    "/api/v1/pods": ("v1", "PodList", [bare(entry) for entry in [*gang("g", 2, 4), pod("p", 1)]]),
    "/apis/scheduling.x-k8s.io/v1alpha1/podgroups": (
        "scheduling.x-k8s.io/v1alpha1",
        "PodGroupList",
        [bare(thing("PodGroup", "x", "g", {"minMember": 2}, namespace="team"))],
    ),
}


class FakeApi:
    """Two items a page."""

    def __init__(self, denied=()):
        self.denied, self.asked = denied, []

    def get(self, path):
        self.asked.append(path)
        parts = urlsplit(path)
        if parts.path in self.denied:
            return 403, b"{}"
        if parts.path not in LISTS:
            return 404, b"{}"
        version, kind, items = LISTS[parts.path]
        start = int(parse_qs(parts.query).get("continue", ["0"])[0])
        end = start + 2
        meta = {"continue": str(end)} if end < len(items) else {}
        page = {"apiVersion": version, "kind": kind, "metadata": meta, "items": items[start:end]}
        return 200, json.dumps(page).encode()


def test_all_pages_of_all_kinds_are_read():
    denied = []

    found = [entry.data for entry in live_objects(FakeApi(), denied.append)]

    kinds = [entry["kind"] for entry in found]
    assert kinds == ["Node"] * 3 + ["Pod"] * 3 + ["PodGroup"]
    assert denied == []


def test_lists_that_may_not_be_read_are_told_and_nodes_must_be():
    denied = []
    groups = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"

    found = list(live_objects(FakeApi(denied=(groups,)), denied.append))

    assert (len(found), denied) == (6, [groups])
    with pytest.raises(SpecErrors, match=r"/api/v1/nodes.*answers 403.*verb list"):
        list(live_objects(FakeApi(denied=("/api/v1/nodes",)), denied.append))


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"items": 5}'])
def test_answers_that_are_none_are_refused(body):
    class Odd:
        def get(self, _):
            return 200, body

    with pytest.raises(SpecErrors, match="the answer is no"):
        list(live_objects(Odd(), print))


@pytest.fixture
def server(tmp_path):
    """An API server on this machine, and the kubeconfig that leads to it."""
    api, methods = FakeApi(), []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            methods.append(self.command)
            status, body = api.get(self.path)
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                status, body = 401, b"{}"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{listener.server_port}"}}
        ],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    yield path
    listener.shutdown()
    listener.server_close()
    assert set(methods) <= {"GET"}


def test_the_cluster_of_a_kubeconfig_is_imported(server):
    pytest.importorskip("kubernetes", reason="the Kubernetes client (extra kube) is not installed")

    done = unstrand("import", "kubernetes", "--live", "--kubeconfig", server)

    assert done.code == 0, done.err
    assert "name: team/g, replicas: 2" in done.out
    assert "read: nodes (3)" in done.err


def test_a_kubeconfig_that_leads_nowhere_is_said_in_one_line(server, tmp_path):
    pytest.importorskip("kubernetes", reason="the Kubernetes client (extra kube) is not installed")

    done = unstrand("import", "kubernetes", "--live", "--kubeconfig", server, "--context", "gone")
    none = unstrand("import", "kubernetes", "--live", "--kubeconfig", tmp_path / "none")

    assert (done.code, none.code) == (3, 3)
    assert "gone" in done.err
    assert len(done.err.splitlines()) == len(none.err.splitlines()) == 1


def test_files_or_live_but_not_both():
    assert unstrand("import", "kubernetes", "--live", "x.json").code == 2
    assert unstrand("import", "kubernetes", "x.json", "--context", "c").code == 2


def test_without_the_client_the_way_out_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)

    done = unstrand("import", "kubernetes", "--live")

    assert done.code == 3
    assert "pip install 'unstrand[kube]'" in done.err
