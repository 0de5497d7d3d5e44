"""A cluster asked live, read-only: lists of objects by page, with the access of a kubeconfig."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

from kube.reading import Found
from specs.errors import SpecErrors, SpecFault
from specs.importers.fields import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = 500
REQUIRED = ("/api/v1/nodes", "/api/v1/pods")
OPTIONAL = (
    ("/apis/scheduling.k8s.io/v1/priorityclasses",),
    ("/apis/batch/v1/jobs",),
    ("/api/v1/persistentvolumes",),
    ("/api/v1/persistentvolumeclaims",),
    *(
        tuple(f"/apis/resource.k8s.io/{version}/{kind}" for version in ("v1", "v1beta2", "v1beta1"))
        for kind in ("resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses")
    ),
    *(
        tuple(f"/apis/kueue.x-k8s.io/{version}/{kind}" for version in ("v1beta2", "v1beta1"))
        for kind in (
            "workloads",
            "clusterqueues",
            "localqueues",
            "cohorts",
            "topologies",
            "resourceflavors",
        )
    ),
    ("/apis/scheduling.x-k8s.io/v1alpha1/podgroups",),
    ("/apis/scheduling.volcano.sh/v1beta1/podgroups",),
    ("/apis/scheduling.volcano.sh/v1beta1/queues",),
    ("/apis/scheduling.run.ai/v2alpha2/podgroups",),
    ("/apis/scheduling.run.ai/v2/queues",),
    ("/apis/kai.scheduler/v1alpha1/topologies",),
    ("/apis/jobset.x-k8s.io/v1alpha2/jobsets",),
    ("/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets",),
    ("/apis/batch.volcano.sh/v1alpha1/jobs",),
    ("/apis/ray.io/v1/rayclusters",),
    ("/apis/kubeflow.org/v1/pytorchjobs",),
    ("/apis/kubeflow.org/v2beta1/mpijobs",),
)
"""Lists that are used where the cluster has them, in the first version that it has."""


class Api(Protocol):
    """The one thing that is asked of a cluster."""

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET request."""
        ...


def live_objects(api: Api, denied: Callable[[str], None]) -> Iterator[Found]:
    """Objects of a cluster, of every kind that the import knows.

    Parameters
    ----------
    denied
        Told the path of each optional list that may not be read.

    Raises
    ------
    SpecErrors
        Nodes or pods may not be read, or the answer is none of the API's.
    """
    for path in REQUIRED:
        yield from _listed(api, path)
    for versions in OPTIONAL:
        for path in versions:
            try:
                yield from _listed(api, path)
            except _RefusedError as error:
                if error.status == 404:
                    continue
                if error.status != 403:
                    raise
                denied(path)
            break


class _RefusedError(SpecErrors):
    def __init__(self, path: str, status: int, hint: str) -> None:
        self.status = status
        super().__init__([SpecFault(file=path, rule=f"the API answers {status}", hint=hint)])


def _listed(api: Api, path: str) -> Iterator[Found]:
    """Items of a list, page by page."""
    token = ""
    while True:
        query = {"limit": str(PAGE)} | ({"continue": token} if token else {})
        status, body = api.get(f"{path}?{urlencode(query)}")
        if status != 200:
            hint = "Reading needs the verb list on it" if status == 403 else ""
            raise _RefusedError(path, status, hint)
        page = _page(path, body)
        kind = str(page.get("kind", "")).removesuffix("List")
        head = {"apiVersion": page.get("apiVersion"), "kind": kind}
        for item in page["items"]:
            yield Found({**head, **item} if isinstance(item, dict) else item, Place(path, 1))
        meta = page.get("metadata")
        token = str(meta.get("continue") or "") if isinstance(meta, dict) else ""
        if not token:
            return


def _page(path: str, body: bytes) -> dict[str, Any]:
    try:
        page = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise SpecErrors([SpecFault(file=path, rule="the answer is no JSON")]) from error
    if not isinstance(page, dict) or not isinstance(page.get("items"), list):
        raise SpecErrors([SpecFault(file=path, rule="the answer is no list of the API")])
    return page


class KubeconfigApi:
    """The cluster of a kubeconfig, by the official client: its certificates, tokens and plugins.

    Raises
    ------
    SpecErrors
        The client is not installed, or the kubeconfig does not lead to a cluster.
    """

    def __init__(self, kubeconfig: str | None = None, context: str | None = None) -> None:
        name = kubeconfig or "kubeconfig"
        try:
            from kubernetes.client import Configuration, rest
            from kubernetes.config import ConfigException, load_kube_config
        except ImportError as error:
            hint = "pip install 'unstrand[kube]', or give the output of kubectl as FILE"
            fault = SpecFault(file=name, rule="the Kubernetes client is not installed", hint=hint)
            raise SpecErrors([fault]) from error
        configuration = Configuration()
        load: Any = load_kube_config  # parts of the client have no types
        try:
            load(kubeconfig, context, configuration, persist_config=False)
        except (ConfigException, OSError, ValueError) as error:
            raise SpecErrors([SpecFault(file=name, rule=" ".join(str(error).split()))]) from error
        self._host = str(configuration.host)
        self._client: Any = rest.RESTClientObject(configuration)
        self._headers = {"Accept": "application/json"}
        settings: Any = configuration.auth_settings()
        for entry in settings.values():
            self._headers[str(entry["key"])] = str(entry["value"])

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET request.

        Raises
        ------
        SpecErrors
            The server does not answer.
        """
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            response = self._client.request(
                "GET", self._host + path, headers=self._headers, _request_timeout=60
            )
        except (ApiException, HTTPError) as error:
            status = getattr(error, "status", None)
            if status:
                return int(status), b""
            rule = f"the API server does not answer: {type(error).__name__}"
            raise SpecErrors([SpecFault(file=self._host, rule=rule)]) from error
        return response.status, response.read()
