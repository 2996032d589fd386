"""Secrets planted in files, servers that echo them, and the search for where they come out."""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Secrets:
    """Secrets in files of their own, and the texts by which they would be known."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.texts = {}

    def plant(self, name):
        text = f"CANARY{uuid.uuid4().hex}"
        path = self.folder / name
        path.touch(0o600)
        path.write_text(f"{text}\n")
        self.texts[name] = text
        return path

    def plant_key(self, name, path):
        """A private key: what is between the lines that say so."""
        self.texts[name] = path.read_text().splitlines()[1]
        return path

    def found_in(self, text):
        return {name for name, secret in self.texts.items() if secret in text}

    def found_below(self, root):
        """Files that hold a secret, other than its own."""
        found = {}
        for path in root.rglob("*"):
            if path.is_file() and self.folder not in path.parents:
                names = self.found_in(path.read_bytes().decode("latin-1"))
                if names:
                    found[str(path.relative_to(root))] = names
        return found


class Processes:
    """Looks at the command lines and environments of everything that runs here."""

    def __init__(self, secrets):
        self._secrets, self._stop, self.found = secrets, threading.Event(), set()
        self._thread = threading.Thread(target=self._watch)
        self.seen = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(10)

    def _watch(self):
        while not self._stop.wait(0.02):
            for name in ("cmdline", "environ"):
                for path in Path("/proc").glob(f"[0-9]*/{name}"):
                    with contextlib.suppress(OSError):
                        text = path.read_bytes().decode("latin-1")
                        self.seen += 1
                        if secrets := self._secrets.found_in(text):
                            self.found.add((text, *secrets))


class Echo(BaseHTTPRequestHandler):
    """401 with everything that was sent, in the body, the reason and a header."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def refuse(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        sent = self.headers.get("Authorization", "")
        self.server.refused.append(sent)
        body = json.dumps({"code": "unauthorized", "message": f"bad: {self.headers}"}).encode()
        self.send_response(401, f"not {sent}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Echo", sent)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.refuse()

    def do_POST(self):
        self.refuse()


class Engine(Echo):
    """Serves a model until its key is taken back, in the middle of a sweep."""

    def do_GET(self):
        if self.path != "/v1/models":
            self.send_error(404)
            return
        body = json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode()
        self.answer("application/json", body)

    def do_POST(self):
        if self.server.left == 0:
            self.refuse()
            return
        self.server.left -= 1
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"index": 0, "delta": {"content": "one two"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 16, "completion_tokens": 2, "total_tokens": 18}
        chunk = {"id": "x", "model": "m", "choices": [choice], "usage": usage}
        self.answer("text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def serving(handler, left=0):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.refused, server.left, server.daemon_threads = [], left, True
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
