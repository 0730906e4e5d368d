import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { silentLogger } from "../../base/log.ts";
import { agentRoutes, issueIdentity, startTestColony, temporaryDirectory } from "../colony.fixture.ts";
import { dialTunnel } from "./dial-tunnel.ts";
import type { Tunnel } from "./tunnel.ts";
import type { FindServedFile } from "./tunnel-files.ts";

const never = new AbortController().signal;

async function withTunnel(files: FindServedFile | undefined, use: (tunnel: Tunnel) => Promise<void>): Promise<void> {
  await using colony = await startTestColony();
  const identity = await issueIdentity(colony.authority, "web-1");
  await using _tunnel = await dialTunnel({
    endpoint: colony.endpoint,
    identity,
    colonyId: identity.colonyId,
    routes: agentRoutes("web-1"),
    ...(files && { files }),
    signal: never,
    log: silentLogger,
    timeoutMs: 20_000,
  });
  await use(await colony.nextTunnel());
}

async function read(tunnel: Tunnel, name: string, offsetBytes = 0, signal = never): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of tunnel.readFile(name, { offsetBytes, idleTimeoutMs: 5_000, signal })) parts.push(Buffer.from(part));
  return Buffer.concat(parts);
}

const codeOf = (reading: Promise<unknown>): Promise<string> =>
  reading.then(
    () => "no failure",
    (error: unknown) => CoralError.from(error).code,
  );

describe("Tunnel.readFile()", () => {
  const content = randomBytes(3_000_000);

  it("transfers complete files, from an offset, and several concurrently", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "1");
    writeFileSync(path, content);
    const names: string[] = [];
    const find: FindServedFile = (name) => {
      names.push(name);
      return { path, sizeBytes: content.length - 10 };
    };
    await withTunnel(find, async (tunnel) => {
      const whole = content.subarray(0, -10);
      const all = await Promise.all([0, 1, 2_000_000, whole.length].map((offset) => read(tunnel, "segments/e/span/1", offset)));
      expect(all.map((bytes) => bytes.length)).toEqual([0, 1, 2_000_000, whole.length].map((offset) => whole.length - offset));
      expect(all[0]?.equals(whole)).toBe(true);
      expect(all[2]?.equals(whole.subarray(2_000_000))).toBe(true);
    });
    expect(new Set(names)).toEqual(new Set(["segments/e/span/1"]));
  });

  it("reports a missing file: an unknown name, one that was just removed, an offset past its end", async () => {
    const find: FindServedFile = (name) => (name === "none" ? undefined : { path: "/nonexistent/file", sizeBytes: 100 });
    await withTunnel(find, async (tunnel) => {
      expect(await codeOf(read(tunnel, "none"))).toBe("not-found");
      expect(await codeOf(read(tunnel, "removed"))).toBe("not-found");
      expect(await codeOf(read(tunnel, "removed", 101))).toBe("not-found");
    });
  });

  it("throws `unsupported` for an agent that serves no files, and other calls continue", async () => {
    await withTunnel(undefined, async (tunnel) => expect(await codeOf(read(tunnel, "segments/e/span/1"))).toBe("unsupported"));
  });

  it("stops when its signal aborts or the tunnel closes", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "1");
    writeFileSync(path, content);
    await withTunnel(
      () => ({ path, sizeBytes: content.length }),
      async (tunnel) => {
        const stop = new AbortController();
        const reading = async (signal: AbortSignal, act: () => void): Promise<void> => {
          for await (const _part of tunnel.readFile("x", { idleTimeoutMs: 5_000, signal })) act();
        };
        await expect(reading(stop.signal, () => stop.abort())).rejects.toThrow("aborted");
        expect(await codeOf(reading(never, () => void tunnel.close("enough")))).toMatch(/unavailable|no failure/);
        expect(await codeOf(read(tunnel, "x"))).toBe("unavailable");
      },
    );
  });
});
