/** Databases, caches and DNS: counts of the BPF programs and decoders, compared with what clients sent. */

import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import {
  type RunningServer,
  startDnsmasq,
  startMariadb,
  startMemcached,
  startPostgres,
  startRedis,
  startWireServer,
} from "../support/database-servers.ts";
import { MysqlClient } from "../support/mysql-client.ts";
import { PayloadObserver } from "../support/payload-observer.ts";

const run = promisify(execFile);
/** Resources that a test starts. */
const programs =
  "mariadbd mariadb mariadb-install-db postgres initdb pgbench redis-server redis-benchmark memcached dnsmasq dig openssl python3 cc".split(
    " ",
  );
const hookKinds = ["sockets", "syscalls"] as const;

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function big32(value: number): Buffer {
  return int32(value).swap32();
}

/** Sends a hundred queries with one call, the limit of dnsmasq per connection, then waits for all responses. */
const dnsClient = `
import socket, sys
asked = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def query(number):
    message = number.to_bytes(2, "big") + bytes.fromhex("01000001000000000000") + b"\\x28" + b"a" * 40 + b"\\x01x\\x04test\\0\\0\\x01\\0\\x01"
    return len(message).to_bytes(2, "big") + message
asked.sendall(b"".join(query(number) for number in range(100)))
answers = asked.makefile("rb")
for number in range(100):
    answers.read(int.from_bytes(answers.read(2), "big"))
`;

/** Like `set_many` of real clients: noreply sets in one call, with values of 10 to 1000 bytes and of 20 KiB, then one `get` for all. */
const memcachedClient = `
import socket, sys
asked = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def ask(text, end):
    asked.sendall(text)
    got = b""
    while not got.endswith(end):
        got = got[-64:] + asked.recv(65536)
def block(key, size, noreply):
    return b"set %s 0 0 %d%s\\r\\n%s\\r\\n" % (key, size, noreply, (b"set z 0 0 5\\r\\n" * size)[:size])
for turn in range(3):
    asked.sendall(b"".join(block(b"k%d" % n, 10 + n * 97 % 991, b" noreply") for n in range(1000)))
    ask(b"version\\r\\n", b"\\r\\n")
for n in range(9):
    ask(block(b"big%d" % n, 20000 + n, b""), b"STORED\\r\\n")
ask(b"get " + b" ".join(b"k%d" % n for n in range(1000)) + b"\\r\\n", b"END\\r\\n")
ask(b"get " + b" ".join(b"big%d" % n for n in range(9)) + b"\\r\\n", b"END\\r\\n")
ask(b"get nothing\\r\\n", b"END\\r\\n")
ask(b"get k1\\r\\n", b"END\\r\\n")
ask(b"get k1 big1\\r\\n", b"END\\r\\n")
`;

/** One connection per test, opened on first use. */
let socket: Socket | undefined;

/** Sends all requests with one write and waits for their responses, which also arrive together. */
async function exchange(port: number, requests: readonly Buffer[]): Promise<void> {
  if (socket === undefined) {
    socket = connect(port, "127.0.0.1").setNoDelay();
    await once(socket, "connect");
  }
  socket.write(Buffer.concat(requests));
  await once(socket, "data");
}

function hangUp(): void {
  socket?.destroy();
  socket = undefined;
}

let observer: PayloadObserver | undefined;
let server: RunningServer | undefined;

describe("databases, caches and DNS on sockets", () => {
  beforeEach((context) => {
    const reason = probesSkipReason(...programs);
    context.skip(reason !== undefined, reason);
  });
  afterEach(async () => {
    hangUp();
    await observer?.[Symbol.asyncDispose]();
    observer = undefined;
    await server?.[Symbol.asyncDispose]();
    server = undefined;
  });

  it.each(hookKinds)(
    "counts MariaDB statements with hooks at %s: text, prepared, failed and piped ones, large results, old connections",
    async (kind) => {
      server = await startMariadb();
      const { pid, port } = server;
      using old = await MysqlClient.open(port);
      await old.query("CREATE DATABASE d");
      await old.query("CREATE TABLE d.t (id BIGINT PRIMARY KEY, name VARCHAR(40))");
      const early = await old.prepare("SELECT name FROM d.t WHERE id = ?");
      observer = await PayloadObserver.open({ kind, port });
      for (let id = 0; id < 200; id++) await old.query(`INSERT INTO d.t VALUES (${id}, 'hidden-text ${id}')`);
      for (let count = 0; count < 7; count++) await old.query("INSERT INTO d.t VALUES (5, 'hidden-text')");
      await old.execute(early, 3);
      using fresh = await MysqlClient.open(port);
      const statement = await fresh.prepare("SELECT name FROM d.t WHERE id > ?");
      for (let id = 0; id < 300; id++) await fresh.execute(statement, id);
      await fresh.query("SELECT seq, REPEAT('x', 500) FROM d.seq_1_to_2000");
      for (const text of ["SELECT 1", "SELECT nothing", "SELECT 3"]) fresh.send(0, Buffer.from(`\x03${text}`));
      for (let count = 0; count < 3; count++) await fresh.result();
      const sql = "SELECT COUNT(*) FROM d.t WHERE name = 'hidden-text'; SELECT SLEEP(0.05); SELECT * FROM d.nowhere;";
      const client = execFile("mariadb", ["--no-defaults", "--skip-ssl", "-h127.0.0.1", `-P${port}`, "-uroot", "--force", "-e", sql]);
      await once(client, "close");
      const routes = {
        "mysql INSERT | INSERT INTO d.t VALUES (?) | ": 200,
        "mysql INSERT | INSERT INTO d.t VALUES (?) | 1062!": 7,
        "mysql  | unknown | ": 1,
        "mysql PREPARE | SELECT name FROM d.t WHERE id > ? | ": 1,
        "mysql SELECT | SELECT name FROM d.t WHERE id > ? | ": 300,
        "mysql SELECT | SELECT seq, REPEAT(?, ?) FROM d.seq_1_to_2000 | ": 1,
        "mysql SELECT | SELECT ? | ": 2,
        "mysql SELECT | SELECT nothing | 1054!": 1,
        "mysql SELECT | SELECT COUNT(*) FROM d.t WHERE name = ? | ": 1,
        "mysql SELECT | SELECT * FROM d.nowhere | 1146!": 1,
        "mysql SELECT | SELECT SLEEP(?) | ": 1,
      };
      await observer.settle(() => (observer?.of(pid).length ?? 0) >= 516);
      expect(observer.countsOf(pid, "server")).toEqual(routes);
      expect(observer.countsOf(client.pid ?? 0, "client")).toEqual({
        "mysql SELECT | SELECT COUNT(*) FROM d.t WHERE name = ? | ": 1,
        "mysql SELECT | SELECT * FROM d.nowhere | 1146!": 1,
        "mysql SELECT | SELECT SLEEP(?) | ": 1,
      });
      const slept = observer.requests.filter(({ route }) => route === "SELECT SLEEP(?)");
      expect(slept).toHaveLength(2);
      for (const { durationNs } of slept) {
        expect(durationNs / 1e6).toBeGreaterThan(49);
        // A busy machine may delay either of them.
        expect(durationNs / 1e6).toBeLessThan(2_000);
      }
      expect(observer.losses).toEqual({});
      for (const request of observer.of(pid)) expect(request).toMatchObject({ serverPort: port, peerAddress: "127.0.0.1" });
      expect(JSON.stringify(observer.requests)).not.toContain("hidden-text");
    },
  );

  it("counts MariaDB statements under TLS", async () => {
    server = await startMariadb(true);
    const { pid, port } = server;
    observer = await PayloadObserver.openWithTls();
    const sql = "SELECT 1, 'hidden-text'; SELECT VERSION(); SELECT * FROM d.nowhere;";
    const client = execFile("mariadb", ["--no-defaults", "--ssl", "-h127.0.0.1", `-P${port}`, "-uroot", "-e", sql]);
    await once(client, "close");
    await observer.settle(() => (observer?.of(pid).length ?? 0) >= 3 && (observer?.of(client.pid ?? 0).length ?? 0) >= 3);
    const wanted = {
      "mysql SELECT | SELECT ?, ? | ": 1,
      "mysql SELECT | SELECT VERSION() | ": 1,
      "mysql SELECT | SELECT * FROM d.nowhere | 1146!": 1,
    };
    expect(observer.countsOf(pid, "server")).toEqual(wanted);
    expect(observer.countsOf(client.pid ?? 0, "client")).toEqual(wanted);
    for (const request of observer.of(pid)) expect(request).toMatchObject({ isTls: true, serverPort: port });
  });

  it.each(["extended", "prepared"])("counts every statement of Postgres pipelines, %s", async (mode) => {
    server = await startPostgres();
    const { port } = server;
    const directory = mkdtempSync(join(tmpdir(), "coral-pgbench-"));
    const script = join(directory, "pipeline.sql");
    writeFileSync(
      script,
      "\\startpipeline\nselect 1;\nselect relname from pg_class where oid = 11 and relname = 'hidden-text';\nselect 3;\n\\endpipeline\n",
    );
    observer = await PayloadObserver.open({ port });
    const client = execFile("pgbench", [
      "-n",
      "-h",
      "127.0.0.1",
      "-p",
      String(port),
      "-U",
      "postgres",
      "-M",
      mode,
      "-c",
      "2",
      "-t",
      "100",
      "-f",
      script,
      "postgres",
    ]);
    await once(client, "close");
    rmSync(directory, { recursive: true });
    const seen = observer;
    const isServer = (request: { serverPort: number; role: string }) => request.serverPort === port && request.role === "server";
    await observer.settle(() => seen.requests.filter(isServer).length >= 600);
    const wanted = {
      "postgres SELECT | select ? | ": 400,
      "postgres SELECT | select relname from pg_class where oid = ? and relname = ? | ": 200,
    };
    expect(observer.counts(isServer)).toEqual(wanted);
    expect(observer.countsOf(client.pid ?? 0, "client")).toEqual(wanted);
    expect(observer.losses).toEqual({});
    expect(JSON.stringify(observer.requests)).not.toContain("hidden-text");
  });

  it("counts every command of Redis pipelines, at both ends", async () => {
    server = await startRedis();
    const { pid, port } = server;
    observer = await PayloadObserver.open({ port });
    const client = execFile("redis-benchmark", [
      "-p",
      String(port),
      "-n",
      "6400",
      "-c",
      "4",
      "-P",
      "16",
      "-t",
      "set,get",
      "-d",
      "30",
      "-q",
    ]);
    await once(client, "close");
    await observer.settle(() => (observer?.of(pid).length ?? 0) >= 12_800);
    const wanted = { "redis SET | SET | ": 6400, "redis GET | GET | ": 6400 };
    expect(observer.counts((request) => request.pid === pid && request.method !== "CONFIG")).toEqual(wanted);
    expect(observer.counts((request) => request.pid === client.pid && request.method !== "CONFIG")).toEqual(wanted);
    expect(observer.losses).toEqual({});
  });

  it("counts memcached text commands", async () => {
    server = await startMemcached();
    const { pid, port } = server;
    observer = await PayloadObserver.open({ port });
    const ask = (text: string) => exchange(port, [Buffer.from(text)]);
    for (let count = 0; count < 100; count++) await ask(`set k${count} 0 0 11\r\nhidden-text\r\n`);
    for (let count = 0; count < 150; count++) await ask(`get k${count}\r\n`);
    await ask("incr k1 5\r\n");
    await ask(`set big 0 0 5000\r\n${"z".repeat(5000)}\r\n`);
    hangUp();
    await observer.settle(() => (observer?.of(pid).length ?? 0) >= 252);
    expect(observer.countsOf(pid, "server")).toEqual({
      "memcached set | set | STORED": 101,
      "memcached get | get | HIT": 100,
      "memcached get | get | MISS": 50,
      "memcached incr | incr | CLIENT_ERROR!": 1,
    });
    expect(observer.losses).toEqual({});
    expect(JSON.stringify(observer.requests)).not.toContain("hidden-text");
  });

  it("counts memcached commands with keys of any bytes and any length", async () => {
    server = await startMemcached();
    const { pid, port } = server;
    observer = await PayloadObserver.open({ port });
    const ask = (text: string) => exchange(port, [Buffer.from(text, "latin1")]);
    for (const key of ["\x10\xb0\x10", "\x01".padEnd(250, "k")]) {
      await ask(`set ${key} 4294967295 0 11\r\nhidden-text\r\n`);
      await ask(`get ${key}\r\n`);
    }
    hangUp();
    await observer.settle(() => (observer?.of(pid).length ?? 0) >= 4);
    expect(observer.countsOf(pid, "server")).toEqual({ "memcached set | set | STORED": 2, "memcached get | get | HIT": 2 });
    expect(observer.losses).toEqual({});
  });

  it.each(hookKinds)("counts pipelined memcached commands and multi-key gets, with hooks at %s", async (kind) => {
    server = await startMemcached();
    const { pid, port } = server;
    observer = await PayloadObserver.open({ kind, port });
    const client = execFile("python3", ["-c", memcachedClient, String(port)]);
    await once(client, "close");
    expect(client.exitCode).toBe(0);
    const wanted = {
      "memcached set | set | ": 3000,
      "memcached set | set | STORED": 9,
      "memcached get | get | HIT": 4,
      "memcached get | get | MISS": 1,
      "memcached version | version | ": 3,
    };
    await observer.settle(() => (observer?.of(pid).length ?? 0) >= 3017 && (observer?.of(client.pid ?? 0).length ?? 0) >= 3017);
    expect(observer.countsOf(pid, "server")).toEqual(wanted);
    expect(observer.countsOf(client.pid ?? 0, "client")).toEqual(wanted);
    expect(observer.losses).toEqual({});
  });

  it("counts MongoDB messages, one by one and pipelined", async () => {
    server = await startWireServer("mongodb");
    const { pid, port } = server;
    observer = await PayloadObserver.open({ port });
    const command = (id: number, name: string, collection: string) => {
      const text = (value: string) => Buffer.concat([int32(value.length + 1), Buffer.from(`${value}\0`)]);
      const elements = Buffer.concat([Buffer.from(`\x02${name}\0`), text(collection), Buffer.from("\x02secret\0"), text("hidden-text")]);
      const body = Buffer.concat([int32(0), Buffer.from([0]), int32(5 + elements.length), elements, Buffer.from([0])]);
      return Buffer.concat([int32(16 + body.length), int32(id), int32(0), int32(2013), body]);
    };
    let id = 0;
    for (let count = 0; count < 120; count++) await exchange(port, [command(++id, "find", "users")]);
    for (let count = 0; count < 30; count++) await exchange(port, [command(++id, "insert", "orders"), command(++id, "find", "missing")]);
    hangUp();
    await observer.settle(() => (observer?.of(pid).length ?? 0) >= 180);
    expect(observer.countsOf(pid, "server")).toEqual({
      "mongodb find | find users | ": 120,
      "mongodb insert | insert orders | ": 30,
      "mongodb find | find missing | 26!": 30,
    });
    expect(observer.losses).toEqual({});
    expect(JSON.stringify(observer.requests)).not.toContain("hidden-text");
  });

  it("counts Kafka requests", async () => {
    server = await startWireServer("kafka");
    const { pid, port } = server;
    observer = await PayloadObserver.open({ port });
    const framed = (api: number, version: number, id: number, ...parts: Buffer[]) => {
      const body = Buffer.concat([Buffer.from([0, api, 0, version]), big32(id), Buffer.from("\0\x05maker"), ...parts]);
      return Buffer.concat([big32(body.length), body]);
    };
    const produce = (id: number, topic: string) =>
      framed(
        0,
        8,
        id,
        Buffer.from("ffffffff00000bb8", "hex"),
        big32(1),
        Buffer.from([0, topic.length]),
        Buffer.from(topic),
        big32(0),
        Buffer.from("hidden-text"),
      );
    for (let id = 1; id <= 100; id++) await exchange(port, [produce(id, "orders")]);
    for (let id = 1; id <= 10; id++) await exchange(port, [produce(id, "missing"), framed(3, 5, id + 1000, big32(0))]);
    await exchange(port, [framed(12, 3, 5000, Buffer.from("\0\x01g"))]);
    hangUp();
    await observer.settle(() => (observer?.of(pid).length ?? 0) >= 121);
    expect(observer.countsOf(pid, "server")).toEqual({
      "kafka Produce | Produce orders | ": 100,
      "kafka Produce | Produce missing | 3!": 10,
      "kafka Metadata | Metadata | ": 10,
      "kafka Heartbeat | Heartbeat | 27!": 1,
    });
    expect(observer.losses).toEqual({});
  });

  it.each(hookKinds)("counts DNS over UDP and TCP, at both ends, with hooks at %s", async (kind) => {
    server = await startDnsmasq();
    const { pid, port } = server;
    observer = await PayloadObserver.open({ kind, port });
    const dig = async (...args: string[]) => run("dig", ["-p", String(port), "@127.0.0.1", "+tries=1", "+time=3", ...args]);
    for (let count = 0; count < 5; count++) await dig("www.x.test", "A");
    await dig("+tcp", "www.x.test", "A");
    await dig("www.x.test", "AAAA");
    await dig("elsewhere.example", "MX");
    await dig("+tcp", "elsewhere.example", "MX");
    await dig("-x", "10.1.2.3");
    const wanted = {
      "dns A | www.x.test | NOERROR": 6,
      "dns AAAA | www.x.test | REFUSED!": 1,
      "dns MX | elsewhere.example | REFUSED!": 2,
      "dns PTR | {id}.in-addr.arpa | REFUSED!": 1,
    };
    const seen = observer;
    const isHere = (request: { serverPort: number }) => request.serverPort === port;
    await observer.settle(() => seen.requests.filter(isHere).length >= 20);
    // dnsmasq serves TCP in a separate process.
    expect(observer.counts((request) => isHere(request) && request.role === "server")).toEqual(wanted);
    expect(observer.counts((request) => isHere(request) && request.role === "client")).toEqual(wanted);
    expect(observer.of(pid).length).toBeGreaterThanOrEqual(8);
    for (const request of observer.requests.filter(isHere)) expect(request.peerAddress).toBe("127.0.0.1");
  });

  it("counts each datagram of sendmmsg and recvmmsg", async () => {
    observer = await PayloadObserver.open();
    const directory = mkdtempSync(join(tmpdir(), "coral-messages-"));
    const program = join(directory, "many-messages");
    await run("cc", ["-O1", "-o", program, fileURLToPath(new URL("../support/many-messages.c", import.meta.url))]);
    const port = Number((await run(program, ["6"])).stdout);
    rmSync(directory, { recursive: true });
    const seen = observer;
    const isHere = (request: { serverPort: number }) => request.serverPort === port;
    await observer.settle(() => seen.requests.filter(isHere).length >= 96);
    const names = Array.from("abcdefgh", (letter, index) => letter.repeat(index + 1));
    for (const role of ["server", "client"]) {
      expect(observer.counts((request) => isHere(request) && request.role === role)).toEqual(
        Object.fromEntries(names.map((name) => [`dns A | ${name}.test | NOERROR`, 6])),
      );
    }
  });

  it("counts pipelined queries over TCP", async () => {
    server = await startDnsmasq();
    const { port } = server;
    observer = await PayloadObserver.open({ port });
    const client = execFile("python3", ["-c", dnsClient, String(port)]);
    await once(client, "close");
    expect(client.exitCode).toBe(0);
    const seen = observer;
    const isHere = (request: { serverPort: number }) => request.serverPort === port;
    await observer.settle(() => seen.requests.filter(isHere).length >= 200);
    for (const role of ["server", "client"]) {
      expect(observer.counts((request) => isHere(request) && request.role === role)).toEqual({ "dns A | {id}.x.test | NOERROR": 100 });
    }
    expect(observer.losses).toEqual({});
  });
});
