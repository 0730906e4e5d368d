import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { loadAgentId } from "./agent-id.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-id-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

it("loadAgentId() makes an id from the host's name once and keeps it when the host is renamed", async () => {
  const file = join(directory, "agent-id");
  const first = await loadAgentId(file, "Web 01.example.com");
  expect(first).toMatch(/^web-01-example-com-[0-9a-f]{8}$/);
  expect(await loadAgentId(file, "other")).toBe(first);
});

it("loadAgentId() works without a usable host name, and rejects a damaged file", async () => {
  expect(await loadAgentId(join(directory, "a"), "…")).toMatch(/^host-[0-9a-f]{8}$/);
  writeFileSync(join(directory, "b"), "two words\n");
  await expect(loadAgentId(join(directory, "b"), "x")).rejects.toThrow(/remove the file/);
});
