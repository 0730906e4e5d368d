import { closeSync, openSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { memoryPageBytes, peerCredentials, releaseFreeMemory, returnLargeBlocks, tryLockFile } from "./libc.ts";

const onLinux = test.skipIf(process.platform !== "linux");

async function inTemporaryDirectory(run: (path: string) => Promise<void>): Promise<void> {
  const path = await mkdtemp(join(tmpdir(), "coral-"));
  try {
    await run(path);
  } finally {
    await rm(path, { recursive: true });
  }
}

onLinux("memoryPageBytes() is a page size of Linux", () => {
  expect([4_096, 16_384, 65_536]).toContain(memoryPageBytes());
});

onLinux("peerCredentials() names this process at the other end of its own unix socket", async () => {
  await inTemporaryDirectory(async (path) => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(path, "s"), resolve));
    const accepted = new Promise<Socket>((resolve) => server.once("connection", resolve));
    const client = connect(join(path, "s"));
    const socket = await accepted;
    const { fd } = (socket as unknown as { _handle: { fd: number } })._handle;
    expect(peerCredentials(fd)).toEqual({ pid: process.pid, uid: process.getuid?.(), gid: process.getgid?.() });
    client.destroy();
    socket.destroy();
    server.close();
  });
});

onLinux("peerCredentials() fails with the errno for a descriptor that is not a socket", () => {
  const fd = openSync("/dev/null", "r");
  // ENOTSOCK
  expect(() => peerCredentials(fd)).toThrow(/errno 88/);
  closeSync(fd);
});

onLinux("tryLockFile() gives the lock to one open file at a time", async () => {
  await inTemporaryDirectory(async (path) => {
    const first = openSync(join(path, "lock"), "w");
    const second = openSync(join(path, "lock"), "w");
    expect(tryLockFile(first)).toBe(true);
    expect(tryLockFile(first)).toBe(true);
    expect(tryLockFile(second)).toBe(false);
    closeSync(first);
    expect(tryLockFile(second)).toBe(true);
    closeSync(second);
  });
});

test("tryLockFile() says that the platform is not supported", () => {
  const original = process.platform;
  Object.defineProperty(process, "platform", { value: "darwin" });
  try {
    expect(() => tryLockFile(0)).toThrow(expect.objectContaining({ code: "unsupported", message: expect.stringContaining("needs Linux") }));
  } finally {
    Object.defineProperty(process, "platform", { value: original });
  }
});

onLinux("returnLargeBlocks() says whether the C library could", () => {
  const report = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  expect(returnLargeBlocks()).toBe(report.header.glibcVersionRuntime !== undefined);
});

onLinux("releaseFreeMemory() says whether the C library could, and may be called again and again", () => {
  const report = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  const isGlibc = report.header.glibcVersionRuntime !== undefined;
  expect([releaseFreeMemory(), releaseFreeMemory()]).toEqual([isGlibc, isGlibc]);
});
