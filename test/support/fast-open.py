"""
`fast-open.py PORT COUNT`: requests in the first packets of connections (TCP fast open), in a network of its own in which clients confirm nothing, so
that servers read and answer before a connection is established.
"""

import socket
import subprocess
import sys

FAST_OPEN_QUEUE = 23
MSG_FASTOPEN = 0x20000000
# Exit code: this system does not support TCP fast open.
NOT_HERE = 77

port, count = int(sys.argv[1]), int(sys.argv[2])
bare = ["--tcp-flags", "FIN,SYN,RST,PSH,ACK", "ACK"]
try:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with open("/proc/sys/net/ipv4/tcp_fastopen", "w") as setting:
        setting.write("519")  # Clients and servers, both without a cookie.
    subprocess.run(["iptables", "-A", "OUTPUT", "-p", "tcp", "--dport", str(port), *bare, "-j", "DROP"], check=True)
except (OSError, subprocess.CalledProcessError):
    sys.exit(NOT_HERE)
with socket.socket() as listener:
    listener.setsockopt(socket.IPPROTO_TCP, FAST_OPEN_QUEUE, 16)
    listener.bind(("127.0.0.1", port))
    listener.listen(16)
    for _ in range(count):
        with socket.socket() as client:
            client.sendto(b"GET /fast HTTP/1.1\r\nHost: a.test\r\n\r\n", MSG_FASTOPEN, ("127.0.0.1", port))
            with listener.accept()[0] as server:
                server.recv(4096)
                server.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
                if not client.recv(4096).startswith(b"HTTP/1.1 204"):
                    sys.exit("no answer")
                client.close()
                server.recv(1)
