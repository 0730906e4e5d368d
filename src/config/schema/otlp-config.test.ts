import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadAgentConfig } from "../agent/agent-config.ts";

let home: string;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "coral-config-"));
});
afterAll(() => rm(home, { recursive: true }));

async function otlpOf(yaml: string) {
  const file = join(home, "agent.yaml");
  await writeFile(file, yaml);
  return (await loadAgentConfig({ home, file, env: {} })).config.otlp;
}

describe("the otlp section", () => {
  it("listens for everything on loopback by default", async () => {
    expect(await otlpOf("")).toEqual({
      enabled: true,
      grpc: { host: "127.0.0.1", port: 4_317 },
      http: { host: "127.0.0.1", port: 4_318 },
      tokenFile: undefined,
      maxBodyBytes: 16 * 1024 ** 2,
      maxInFlightBytes: 64 * 1024 ** 2,
      maxConnections: 512,
      workers: 2,
      sampling: { bytesPerSecond: undefined, slowMs: 500 },
      forward: undefined,
    });
  });

  it("reads every key", async () => {
    const yaml = `otlp:
  grpc: { enabled: false }
  http: { listen: "0.0.0.0:4000" }
  workers: 3
  sampling: { budget: 1MiB, slow: 2s }
  forward: { endpoint: "https://example.com/otlp", headers: { authorization: "Bearer x" }, queue: 1MiB }
`;
    expect(await otlpOf(yaml)).toMatchObject({
      grpc: undefined,
      http: { host: "0.0.0.0", port: 4_000 },
      workers: 3,
      sampling: { bytesPerSecond: 1024 ** 2, slowMs: 2_000 },
      forward: { endpoint: "https://example.com/otlp", headers: { authorization: "Bearer x" }, maxQueueBytes: 1024 ** 2 },
    });
  });

  it.each(['otlp: { forward: { endpoint: "collector:4318" } }', "otlp: { workers: 0 }", "otlp: { sampling: { budget: 5 } }"])(
    "rejects %s",
    async (yaml) => {
      await expect(otlpOf(yaml)).rejects.toThrow(/otlp/);
    },
  );
});
