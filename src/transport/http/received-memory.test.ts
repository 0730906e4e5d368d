import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, createServer } from "node:http2";
import { type AddressInfo, connect } from "node:net";
import { describe, expect, it } from "vitest";
import { createClientSession } from "../tunnel/session-transport.ts";
import { ReceivedMemory } from "./received-memory.ts";

const sizeBytes = 2_000_000;
/** Each stream has different bytes. */
const contentOf = (name: string): Buffer => Buffer.alloc(sizeBytes, name);

async function withSession(use: (session: ClientHttp2Session) => Promise<void>): Promise<void> {
  const server = createServer((request, response) => {
    response.end(contentOf(request.url));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const session = createClientSession(connect((server.address() as AddressInfo).port, "127.0.0.1"));
  try {
    await use(session);
  } finally {
    session.destroy();
    server.close();
  }
}

/** Copies all parts; `onPart` sees each of them afterwards. */
async function readLent(stream: ClientHttp2Stream, memory: ReceivedMemory, onPart?: (part: Buffer) => void): Promise<Buffer> {
  const copies: Buffer[] = [];
  stream.on("data", (part: Buffer) => {
    copies.push(Buffer.from(part));
    memory.read(part);
    onPart?.(part);
  });
  await once(stream, "end");
  return Buffer.concat(copies);
}

async function readKept(stream: ClientHttp2Stream): Promise<Buffer[]> {
  const parts: Buffer[] = [];
  stream.on("data", (part: Buffer) => parts.push(part));
  await once(stream, "end");
  return parts;
}

describe("ReceivedMemory", () => {
  it("releases a buffer once all its parts were read", async () => {
    await withSession(async (session) => {
      const memory = new ReceivedMemory();
      const streams = ["/a", "/b"].map((path) => session.request({ ":path": path }));
      const parts: Buffer[] = [];
      for (const stream of streams) memory.lentTo(stream);
      const read = await Promise.all(streams.map((stream) => readLent(stream, memory, (part) => parts.push(part))));
      expect(read.map((bytes, index) => bytes.equals(contentOf(["/a", "/b"][index] as string)))).toEqual([true, true]);
      const leftBytes = parts.reduce((total, part) => total + part.length, 0);
      expect(leftBytes).toBeLessThan(sizeBytes);
    });
  });

  it("keeps a buffer with a part that another stream keeps", async () => {
    await withSession(async (session) => {
      const memory = new ReceivedMemory();
      const lent = session.request({ ":path": "/a" });
      memory.lentTo(lent);
      const keepers = ["/c", "/d"].map((path) => session.request({ ":path": path }));
      for (const stream of keepers) memory.keptBy(stream);
      const [read, ...kept] = await Promise.all([readLent(lent, memory), ...keepers.map(readKept)] as const);
      const later = session.request({ ":path": "/e" });
      memory.lentTo(later);
      expect((await readLent(later, memory)).equals(contentOf("/e"))).toBe(true);
      expect(read.equals(contentOf("/a"))).toBe(true);
      expect(kept.map((parts, index) => Buffer.concat(parts).equals(contentOf(["/c", "/d"][index] as string)))).toEqual([true, true]);
    });
  });

  it("keeps a buffer with a part queued in a paused stream", async () => {
    await withSession(async (session) => {
      const memory = new ReceivedMemory();
      const [lent, paused] = ["/a", "/b"].map((path) => session.request({ ":path": path })) as [ClientHttp2Stream, ClientHttp2Stream];
      memory.lentTo(lent);
      memory.lentTo(paused);
      const readPaused = readLent(paused, memory);
      paused.once("data", () => paused.pause());
      expect((await readLent(lent, memory)).equals(contentOf("/a"))).toBe(true);
      expect(paused.readableLength).toBeGreaterThan(0);
      paused.resume();
      expect((await readPaused).equals(contentOf("/b"))).toBe(true);
    });
  });
});
