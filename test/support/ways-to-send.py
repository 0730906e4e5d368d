"""
A server that sends each response in the way that its path names, /way/status, and a client. `ways-to-send.py server` prints its port;
`ways-to-send.py client PORT PATH...` sends requests on one connection, one after the other.
"""

import os
import socket
import sys
import threading

SO_ZEROCOPY = 60
MSG_ZEROCOPY = 0x4000000


def send_by(way, connection, answer):
    if way == "send":
        connection.sendall(answer)
    elif way == "write":
        os.write(connection.fileno(), answer)
    elif way == "pieces":
        os.writev(connection.fileno(), [answer[:3], b"", answer[3:11], answer[11:]])
    elif way == "message":
        connection.sendmsg([answer[:10], answer[10:]])
    elif way == "zerocopy":
        connection.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
        connection.sendmsg([answer], [], MSG_ZEROCOPY)
    elif way == "zerosend":
        connection.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
        connection.send(answer, MSG_ZEROCOPY)
    elif way == "long":
        # So that the page that TCP copies to fills up repeatedly.
        connection.sendall(answer.replace(b"0000", b"5000") + b"x" * 5000)
    else:
        raise ValueError(way)


def serve(connection):
    with connection:
        while True:
            request = connection.recv(4096)
            if not request:
                return
            way, status = request.split(b" ")[1].decode().split("/")[1:3]
            send_by(way, connection, f"HTTP/1.1 {status} Said so\r\nContent-Length: 0000\r\n\r\n".encode())


def ask(port, paths):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for path in paths:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: ways.test\r\n\r\n".encode())
            answer = connection.recv(65536)
            while len(answer) < (5000 if path.startswith("/long/") else 1):
                answer += connection.recv(65536)
            expected = f"HTTP/1.1 {path.split('/')[2]} ".encode()
            if not answer.startswith(expected):
                sys.exit(f"{path}: {answer!r}")


if sys.argv[1] == "server":
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
else:
    ask(int(sys.argv[2]), sys.argv[3:])
