"""A small program with an operator's outside: /readyz, /metrics, a log, and an end on request.

GET /exit/N ends it with code N; ``--ready no`` answers 503 for ever; ``--die N`` ends at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    ready = True

    def do_GET(self) -> None:
        if self.path.startswith("/exit/"):
            say("asked to exit")
            os._exit(int(self.path.removeprefix("/exit/")))
        ok = self.path != "/readyz" or self.ready
        self.send_response(200 if ok else 503)
        self.end_headers()
        self.wfile.write(b"plain_up 1\n" if ok else b"caches are not in sync")

    def log_message(self, format: str, *args: object) -> None:
        return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--health-port", type=int, required=True)
    parser.add_argument("--metrics-port", type=int, required=True)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--ready", default="yes")
    parser.add_argument("--die", type=int, default=-1)
    parser.add_argument("--print-token", default="no")
    options = parser.parse_args()
    for number in range(40):
        say(f"line {number}")
    if options.print_token == "yes":
        folder = os.path.dirname(options.kubeconfig)
        with open(os.path.join(folder, "token"), encoding="utf-8") as file:
            say(f"my token is {file.read()}")
    if options.die >= 0:
        say("cannot start: no luck")
        sys.exit(options.die)
    Handler.ready = options.ready == "yes"
    servers = [
        ThreadingHTTPServer(("127.0.0.1", port), Handler) for port in (options.health_port, options.metrics_port)
    ]
    threads = [threading.Thread(target=server.serve_forever) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
