"""An operator that gives away all its secrets: it logs, exposes and repeats them in every shape there is."""

from __future__ import annotations

import argparse
import base64
import http.server
import json
import os
import sys


def said(argv: argparse.Namespace, secret: dict[str, str]) -> list[str]:
    """Return its log. ``secret``: name → value; each is in it in one shape that is its own."""
    multi_line = "\n".join(secret["pem"][i : i + 64] for i in range(0, len(secret["pem"]), 64))
    packed = base64.b64encode(f"password: {secret['base64']}".encode()).decode()
    return [
        f"connecting with {argv.password} and {argv.token}, then {os.environ['DB_PASSWORD']}",
        f"DB_PASSWORD={os.environ['DB_PASSWORD']}",
        f"AWS_SECRET_ACCESS_KEY={secret['aws']}",
        f"exec: psql --password {secret['flag']} --host db",
        "request failed: " + json.dumps({"body": json.dumps({"password": secret["json"], "user": "x"})}),
        "three levels: " + json.dumps({"a": json.dumps({"b": json.dumps({"apiKey": secret["deep"]})})}),
        f"  password: {secret['yaml']}",
        f"dial postgres://app:{secret['url']}@db:5432/app",
        f"dsn app:{secret['dsn']}@tcp(db:3306)/app",
        f"Server=db;User Id=app;Password={secret['odbc']};Encrypt=yes",
        f"Authorization: Bearer {secret['bearer']}",
        f"got eyJhbGciOiJSUzI1NiJ9.eyJ{secret['jwt']}.c2lnbmF0dXJl",
        f"-----BEGIN RSA PRIVATE KEY-----\n{multi_line}\n-----END RSA PRIVATE KEY-----",
        f"read {packed}",
        f"\x1b[31mtoken=\x1b[0m{secret['ansi']}\u202e",
        f"map[password:{secret['go']} user:x]",
        json.dumps({"kind": "Secret", "data": {"anything": secret["data"]}}),
        json.dumps({"name": "API_TOKEN", "value": secret["env"]}),
        f"GET /callback?access_token={secret['query']}&x=1",
        f"::error::token={secret['ci']}",
        "##vso[task.setvariable variable=x]y",
        "reconciled 5 tokens; secret/default/foo not found",
    ]


def main() -> None:
    """Log everything, then serve health and metrics on one port."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--set", required=True)
    argv = parser.parse_args()
    secret = json.loads(base64.b64decode(os.environ["CANARIES"]))
    sys.stderr.write("\n".join(said(argv, secret)) + "\n")
    sys.stderr.flush()
    page = (
        f"# HELP leak_total Called with password={secret['help']}\n# TYPE leak_total counter\n"
        f'leak_total{{token="{secret["label"]}",url="http://u:{secret["label-url"]}@h/"}} 1\n'
    ).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(page if self.path == "/metrics" else b"ok")

        def log_message(self, *_: object) -> None:
            """Say nothing of requests."""

    http.server.ThreadingHTTPServer(("127.0.0.1", argv.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
