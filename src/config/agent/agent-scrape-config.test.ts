import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadAgentConfig } from "./agent-config.ts";

let home: string;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "coral-config-"));
});
afterAll(() => rm(home, { recursive: true }));

async function scrapeOf(yaml: string) {
  const file = join(home, "agent.yaml");
  await writeFile(file, yaml);
  return (await loadAgentConfig({ home, file, env: {} })).config.scrape;
}

describe("the scrape section", () => {
  it("has no targets by default", async () => {
    expect(await scrapeOf("")).toEqual({ intervalMs: 30_000, timeoutMs: 5_000, maxBodyBytes: 8 * 1024 ** 2, targets: [] });
  });

  it("reads services with one or several addresses", async () => {
    const yaml = "scrape:\n  interval: 10s\n  targets:\n    node: http://127.0.0.1:9100/metrics\n    api: http://a:1/m, https://b:2/m\n";
    expect(await scrapeOf(yaml)).toMatchObject({
      intervalMs: 10_000,
      targets: [
        { service: "node", url: "http://127.0.0.1:9100/metrics" },
        { service: "api", url: "http://a:1/m" },
        { service: "api", url: "https://b:2/m" },
      ],
    });
  });

  it.each([
    ["targets: { node: 127.0.0.1:9100 }", "write a URL such as http://127.0.0.1:9100/metrics"],
    ["targets: { node: 'http://' }", "write a URL"],
    ["targets: { 'a b': http://x/ }", "write a service name"],
    ["interval: 1ms", "at least"],
    [`targets: { a: '${Array.from({ length: 51 }, (_, index) => `http://h:${index}/`).join(",")}' }`, "at most 50 addresses"],
  ])("rejects %.40s", async (line, why) => {
    await expect(scrapeOf(`scrape:\n  ${line}\n`)).rejects.toThrow(why);
  });
});
