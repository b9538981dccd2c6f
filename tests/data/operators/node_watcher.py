"""An operator that reads all its ConfigMaps whenever a node changes."""

from __future__ import annotations

import argparse
import base64
import http.server
import json
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import yaml


class Api:
    """The API server that a kubeconfig names, with its token."""

    def __init__(self, kubeconfig: str) -> None:
        with open(kubeconfig, encoding="utf-8") as file:
            content = yaml.safe_load(file)
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        self._headers = {"Authorization": f"Bearer {user['token']}"}
        self._server = cluster["server"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)

    def open(self, path: str) -> Any:
        """Return the answer to a GET, to be read and closed."""
        request = urllib.request.Request(self._server + path, headers=self._headers)
        return urllib.request.urlopen(request, context=self._context)

    def changes(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the changes that a watch shows, those at its beginning left out."""
        with self.open(path) as answer:
            for line in answer:
                event = json.loads(line)
                if event["type"] == "MODIFIED":
                    yield event["object"]


def serve(port: int) -> None:
    """Answer that it is ready."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing of requests."""

    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--health-port", type=int, required=True)
    options = parser.parse_args()
    threading.Thread(target=serve, args=(options.health_port,), daemon=True).start()
    api = Api(options.kubeconfig)
    for _ in api.changes("/api/v1/nodes?watch=true"):
        with api.open("/api/v1/configmaps?labelSelector=settings") as answer:
            settings = [one["metadata"] for one in json.load(answer)["items"]]
        for one in settings:
            api.open(f"/api/v1/namespaces/{one['namespace']}/configmaps/{one['name']}").close()


if __name__ == "__main__":
    main()
