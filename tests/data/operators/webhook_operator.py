"""A real webhook server over TLS: refuses ConfigMaps with ``data.refuse``, labels the others, and converts versions."""

from __future__ import annotations

import argparse
import base64
import json
import os
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


class Webhook(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        paths = {"/validate": self.refuse, "/mutate": self.label, "/convert": self.convert}
        answer = paths[self.path.partition("?")[0]](review["request"])
        answer["uid"] = review["request"]["uid"]
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, request: dict[str, Any]) -> dict[str, Any]:
        if "refuse" in (request["object"].get("data") or {}):
            return {"allowed": False, "status": {"code": 422, "message": "data.refuse is not welcome here"}}
        return {"allowed": True}

    def convert(self, request: dict[str, Any]) -> dict[str, Any]:
        objects = [{**obj, "apiVersion": request["desiredAPIVersion"]} for obj in request["objects"]]
        return {"convertedObjects": objects, "result": {"status": "Success"}}

    def label(self, request: dict[str, Any]) -> dict[str, Any]:
        labels = {**(request["object"]["metadata"].get("labels") or {}), "webhook": "was-here"}
        patch = json.dumps([{"op": "add", "path": "/metadata/labels", "value": labels}]).encode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}

    def log_message(self, format: str, *args: object) -> None:
        return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--health-port", type=int, required=True)
    parser.add_argument("--webhook-port", type=int, required=True)
    parser.add_argument("--cert-dir", required=True)
    options = parser.parse_args()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(options.cert_dir, "tls.crt"), os.path.join(options.cert_dir, "tls.key"))
    webhook = ThreadingHTTPServer(("127.0.0.1", options.webhook_port), Webhook)
    webhook.socket = context.wrap_socket(webhook.socket, server_side=True)
    threading.Thread(target=webhook.serve_forever, daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", options.health_port), Ready).serve_forever()


if __name__ == "__main__":
    main()
