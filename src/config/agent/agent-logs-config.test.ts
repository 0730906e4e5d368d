import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadAgentConfig } from "./agent-config.ts";

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "coral-logs-config-"));
});
afterAll(() => rmSync(home, { recursive: true }));

async function logsOf(yaml: string) {
  const file = join(home, "agent.yaml");
  writeFileSync(file, yaml);
  return (await loadAgentConfig({ home, file, env: {} })).config.logs;
}

describe("the logs list", () => {
  it("is empty by default", async () => {
    expect(await logsOf("")).toEqual([]);
  });

  it("reads files and units per service", async () => {
    const yaml = `logs:
  - { service: api, files: ["/var/log/api/*.log"] }
  - { service: web, units: [web@1.service], from_start: true }
`;
    expect(await logsOf(yaml)).toEqual([
      { service: "api", files: ["/var/log/api/*.log"], units: [], fromStart: false },
      { service: "web", files: [], units: ["web@1.service"], fromStart: true },
    ]);
  });

  it.each([
    ["logs: [{ service: api }]", "list files or units"],
    ["logs: [{ service: api, files: [relative.log] }]", "write an absolute path"],
    ["logs: [{ service: api, units: ['--root=/'] }]", "write a unit"],
    ["logs: [{ files: [/a.log] }]", "service"],
    ["logs: [{ service: api, file: /a.log }]", "file"],
  ])("rejects %j", async (yaml, message) => {
    await expect(logsOf(yaml)).rejects.toThrow(message);
  });
});
