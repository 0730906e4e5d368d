"""Shared by the Python programs of the live world: an HTTP server, calls, Postgres, Redis, and the behaviour that faults change."""

import http.client
import json
import os
import random
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORTS = json.loads(os.environ.get("PORTS", "{}"))
BEHAVIOUR = os.environ.get("BEHAVIOUR", "")
STARTED = time.monotonic()
behaviour = {}
held = []


class Failure(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def read_behaviour():
    """Faults write this file, with the changed behaviour by route."""
    global behaviour
    while True:
        try:
            with open(BEHAVIOUR) as file:
                behaviour = json.load(file)
        except (OSError, ValueError):
            pass  # The file is being replaced: the next read finds it.
        if behaviour.get("exitAfterMs") and (time.monotonic() - STARTED) * 1000 > behaviour["exitAfterMs"]:
            os._exit(1)
        if behaviour.get("leakBytes"):
            held.append(bytearray(os.urandom(1)) * behaviour["leakBytes"])
        else:
            held.clear()
        time.sleep(0.2)


threading.Thread(target=read_behaviour, daemon=True).start()


def misbehave(route):
    """Applies a fault's behaviour to this route. Raises the route's error response."""
    wanted = behaviour.get("routes", {}).get(route, {})
    if random.random() < wanted.get("part", 1):
        if wanted.get("delayMs"):
            time.sleep(wanted["delayMs"] * (0.8 + 0.4 * random.random()) / 1000)
        if wanted.get("burnMs"):
            end = time.thread_time() + wanted["burnMs"] / 1000
            while time.thread_time() < end:
                pass
    if random.random() < wanted.get("errorRatio", 0):
        raise Failure(500, "internal error")


def serve(routes):
    """Routes are ("GET", "/orders/", handler): a path that ends in a slash takes an id."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def respond(self):
            status, body = 200, {}
            try:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                body = self.answer()
            except Failure as failure:
                status, body = failure.status, {"error": str(failure)}
            except Exception as error:
                status, body = 500, {"error": str(error)}
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            self.wfile.flush()

        def answer(self):
            for method, path, handle in routes:
                takes_id = path.endswith("/")
                if method == self.command and (self.path.startswith(path) if takes_id else self.path == path):
                    misbehave(f"{method} {path}{':id' if takes_id else ''}")
                    return handle(self.path[len(path) :]) if takes_id else handle()
            raise Failure(404, "not found")

        do_GET = do_POST = respond

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    Server(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()


def call(role, method, path, timeout=2):
    connection = http.client.HTTPConnection("127.0.0.1", PORTS[role], timeout=timeout)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        response.read()
    except OSError as error:
        raise Failure(502, str(error)) from error
    finally:
        connection.close()
    if response.status >= 500:
        raise Failure(502, f"upstream responded {response.status}")


class Postgres:
    """One connection without TLS or password; simple queries."""

    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORTS["postgres"]), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        start = struct.pack("!i", 196608) + b"user\0postgres\0database\0postgres\0\0"
        self.socket.sendall(struct.pack("!i", len(start) + 4) + start)
        self.wait()

    def run(self, sql):
        data = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!i", len(data) + 4) + data)
        return self.wait()

    def wait(self):
        rows, error = 0, None
        while True:
            head = self.file.read(5)
            if len(head) < 5:
                raise OSError("connection to Postgres lost")
            body = self.file.read(struct.unpack("!i", head[1:])[0] - 4)
            if head[:1] == b"D":
                rows += 1
            elif head[:1] == b"E":
                error = body
            elif head[:1] == b"Z":
                if error is not None:
                    raise Failure(500, error.decode(errors="replace"))
                return rows


class Redis:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORTS["redis"]))
        self.file = self.socket.makefile("rb")

    def run(self, *words):
        parts = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if not line:
            raise OSError("connection to Redis lost")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Failure(500, rest.decode())
        if kind == b"$":
            return None if int(rest) < 0 else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if int(rest) < 0 else [self.reply() for _ in range(int(rest))]
        return rest
