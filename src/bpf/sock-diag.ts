/**
 * sock_diag(7): sockets of a network namespace with their counters, at a fraction of the cost of the text tables. Linux only; koffi is loaded with the
 * first dumper.
 */

import { createRequire } from "node:module";
import { endianness } from "node:os";
import { CoralError } from "../base/errors.ts";
import { SockDiagMessage, type SockDiagView } from "./sock-diag-message.ts";

export interface SockDiagRequest {
  /** Open descriptors of the namespace to read and of the caller's own; null stays in the caller's own. Not needed after `open`. */
  namespace: { fd: number; ownFd: number } | null;
  protocol: "tcp" | "udp";
  family: 4 | 6;
  /** As the kernel numbers them: 1 established, 10 listening. */
  states: readonly number[];
}

/** A running dump. The owner closes it. */
export interface SockDiagDump {
  /** Visits the sockets of the next message, at most 32 KiB; false after the last one. The view is reused for each socket. */
  next(visit: (socket: SockDiagView) => void): boolean;
  /** Idempotent. */
  close(): void;
}

export interface SockDiag {
  /** Throws `not-permitted` for another namespace without CAP_SYS_ADMIN, `unsupported` if the kernel cannot dump this protocol. */
  open(request: SockDiagRequest): SockDiagDump;
}

// <linux/netlink.h>, <linux/sock_diag.h>, <linux/inet_diag.h>, <sched.h>: the same on every architecture.
const AF_NETLINK = 16;
const SOCK_RAW = 3;
const SOCK_CLOEXEC = 0o2000000;
const NETLINK_SOCK_DIAG = 4;
const SOCK_DIAG_BY_FAMILY = 20;
const NLM_F_REQUEST = 1;
const NLM_F_DUMP = 0x300;
const INET_DIAG_INFO = 2;
const MSG_DONTWAIT = 0x40;
const CLONE_NEWNET = 0x40000000;
const EPERM = 1;
const EINTR = 4;

const isLittleEndian = endianness() === "LE";

const families = { 4: 2, 6: 10 } as const;
const protocols = { tcp: 6, udp: 17 } as const;
/** The kernel fills at most 32 KiB per message. */
const bufferBytes = 64 * 1024;

interface Calls {
  socket(family: number, type: number, protocol: number): number;
  send(fd: number, data: Buffer, length: number, flags: number): number;
  recv(fd: number, data: Buffer, length: number, flags: number): number;
  setns(fd: number, kind: number): number;
  close(fd: number): number;
  errno(): number;
}

function loadCalls(): Calls {
  if (process.platform !== "linux") {
    throw new CoralError({ code: "unsupported", message: `Cannot use sock_diag: this needs Linux, the platform is "${process.platform}"` });
  }
  try {
    const koffi = createRequire(import.meta.url)("koffi") as typeof import("koffi");
    const self = koffi.load(null);
    // koffi types every foreign function alike; the C prototype beside each name is what makes the cast true.
    return {
      socket: self.func("int socket(int family, int type, int protocol)") as Calls["socket"],
      send: self.func("intptr_t send(int fd, void *data, size_t length, int flags)") as Calls["send"],
      recv: self.func("intptr_t recv(int fd, void *data, size_t length, int flags)") as Calls["recv"],
      setns: self.func("int setns(int fd, int kind)") as Calls["setns"],
      close: self.func("int close(int fd)") as Calls["close"],
      errno: () => koffi.errno(),
    };
  } catch (error) {
    throw new CoralError({
      code: "unsupported",
      message: 'Cannot use sock_diag: the native library "koffi" does not load here',
      cause: error,
    });
  }
}

function failed(what: string, errno: number): CoralError {
  return new CoralError({
    code: errno === EPERM ? "not-permitted" : "unsupported",
    message: `Cannot ${what}: the system call failed with errno ${errno}`,
    details: { errno },
  });
}

/** Throws `unsupported` if FFI does not work, or the platform is not Linux. */
export function createSockDiag(): SockDiag {
  const calls = loadCalls();
  const shared = Buffer.alloc(bufferBytes);
  return {
    open: (request) => {
      const fd = request.namespace === null ? openSocket(calls) : openSocketIn(calls, request.namespace);
      const query = encodeRequest(request);
      if (calls.send(fd, query, query.length, 0) !== query.length) {
        const errno = calls.errno();
        calls.close(fd);
        throw failed("request the sockets", errno);
      }
      return createDump(calls, fd, shared);
    },
  };
}

function openSocket(calls: Calls): number {
  const fd = calls.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (fd < 0) throw failed("open a netlink socket", calls.errno());
  return fd;
}

/**
 * A namespace belongs to a thread, and a socket to the namespace in which it was created: this thread enters the namespace, creates the socket and
 * returns before any other code can run on it. Other threads stay.
 */
function openSocketIn(calls: Calls, namespace: { fd: number; ownFd: number }): number {
  if (calls.setns(namespace.fd, CLONE_NEWNET) !== 0) throw failed("enter a network namespace", calls.errno());
  const fd = calls.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  const errno = fd < 0 ? calls.errno() : 0;
  if (calls.setns(namespace.ownFd, CLONE_NEWNET) !== 0) {
    // A daemon in a foreign namespace would connect from there. The failure may be a temporary lack of memory, so retry once; then stop.
    if (calls.setns(namespace.ownFd, CLONE_NEWNET) !== 0) process.abort();
  }
  if (fd < 0) throw failed("open a netlink socket", errno);
  return fd;
}

/** struct nlmsghdr and struct inet_diag_req_v2; the socket id is left empty, which matches all. */
function encodeRequest({ family, protocol, states }: SockDiagRequest): Buffer {
  const query = Buffer.alloc(72);
  const view = new DataView(query.buffer, query.byteOffset, query.length);
  view.setUint32(0, query.length, isLittleEndian);
  view.setUint16(4, SOCK_DIAG_BY_FAMILY, isLittleEndian);
  view.setUint16(6, NLM_F_REQUEST | NLM_F_DUMP, isLittleEndian);
  view.setUint32(8, 1, isLittleEndian);
  view.setUint8(16, families[family]);
  view.setUint8(17, protocols[protocol]);
  view.setUint8(18, protocol === "tcp" ? 1 << (INET_DIAG_INFO - 1) : 0);
  view.setUint32(
    20,
    states.reduce((bits, state) => bits | (1 << state), 0),
    isLittleEndian,
  );
  return query;
}

function createDump(calls: Calls, fd: number, shared: Buffer): SockDiagDump {
  const message = new SockDiagMessage();
  let isOpen = true;
  const close = (): void => {
    if (isOpen) calls.close(fd);
    isOpen = false;
  };
  const receive = (): number => {
    for (;;) {
      // The kernel has the next part ready once the previous one is read: waiting would only hide a bug.
      const length = calls.recv(fd, shared, shared.length, MSG_DONTWAIT);
      if (length >= 0) return length;
      const errno = calls.errno();
      if (errno !== EINTR) throw failed("receive the sockets", errno);
    }
  };
  return {
    next: (visit) => {
      if (!isOpen) return false;
      const { isLast, errno } = message.read(shared, receive(), visit);
      if (errno !== 0) {
        close();
        throw failed("list the sockets", errno);
      }
      if (isLast) close();
      return !isLast;
    },
    close,
  };
}
