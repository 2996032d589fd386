"""A door in front of a server that lets only so many in at once, and answers 503 to the rest."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

FULL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
ASKS, DONE = b"POST", b"[DONE]"


@contextmanager
def door(url: str, most: int):
    """The address of the door; it closes with the context."""
    behind = urlsplit(url)
    inside = threading.Semaphore(most)
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source, sink, on_done=lambda: None):
        try:
            while data := source.recv(65536):
                if DONE in data:
                    on_done()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve(client):
        with client:
            first = client.recv(65536)
            counts = first.startswith(ASKS)
            if counts and not inside.acquire(blocking=False):
                client.sendall(FULL)
                return
            with socket.create_connection((behind.hostname, behind.port)) as server:
                server.sendall(first)
                threading.Thread(target=pump, args=(client, server), daemon=True).start()
                # Before the client knows, or its next request would find the door still full.
                pump(server, client, inside.release if counts else lambda: None)

    def accept():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
