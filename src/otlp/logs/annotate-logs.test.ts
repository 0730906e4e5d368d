import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { logRecord } from "../../store/signals/index.ts";
import { bundleWorker, openTestReceiver } from "../intake/receiver.fixture.ts";
import type { PatternCount } from "./annotate-logs.ts";

const directory = mkdtempSync(join(tmpdir(), "coral-annotate-"));
let workerFile: string;
beforeAll(async () => {
  workerFile = await bundleWorker(directory);
});
afterAll(() => rmSync(directory, { recursive: true }));

interface Line {
  text?: string;
  severity?: number;
  attributes?: Record<string, string>;
}

function requestOf(service: string, lines: readonly Line[]): Uint8Array {
  const value = (text: string) => ({ stringValue: text });
  const pairs = (map: Record<string, string>) => Object.entries(map).map(([key, text]) => ({ key, value: value(text) }));
  const logRecords = lines.map(({ text, severity = 9, attributes = {} }) => ({
    timeUnixNano: "1767225600000000000",
    severityNumber: severity,
    ...(text === undefined ? {} : { body: value(text) }),
    attributes: pairs(attributes),
  }));
  return Buffer.from(
    JSON.stringify({ resourceLogs: [{ resource: { attributes: pairs({ "service.name": service }) }, scopeLogs: [{ logRecords }] }] }),
  );
}

describe("annotateLogs()", () => {
  it("removes secrets, assigns patterns and counts them", async () => {
    const annotated: PatternCount[] = [];
    await using receiver = await openTestReceiver({ workerFile, pool: { onPatterns: (patterns) => annotated.push(...patterns) } });
    const body = requestOf("api", [
      { text: "request 1 took 5ms" },
      { text: "request 2 took 77ms" },
      { text: "login password=hunter2 of ünï", severity: 17, attributes: { api_key: "abc123def456", note: "ok" } },
      {},
    ]);
    expect(await receiver.receiver.accept({ signal: "logs", format: "json", encoding: "identity", body })).toMatchObject({ rejected: 0 });
    const rows = await receiver.rows(logRecord, "body, pattern, attributes");
    const byBody = new Map(rows.map((row) => [row["body"], row]));
    expect([...byBody.keys()].sort()).toEqual(["login password=*** of ünï", null, "request 1 took 5ms", "request 2 took 77ms"]);
    expect(byBody.get("request 1 took 5ms")?.["pattern"]).toBe(byBody.get("request 2 took 77ms")?.["pattern"]);
    expect(byBody.get("login password=*** of ünï")?.["attributes"]).toBe('{"api_key":"***","note":"ok"}');
    expect(byBody.get(null)?.["pattern"]).toBeNull();
    const counts = annotated.map(({ service, template, severity, records, example }) => [service, template, severity, records, example]);
    expect(counts).toEqual([
      ["api", "request <num> took <num>ms", "info", 2, "request 1 took 5ms"],
      ["api", "login password=*** of ünï", "error", 1, "login password=*** of ünï"],
    ]);
  });

  it("matches templates that the worker received at its start", async () => {
    const annotated: PatternCount[] = [];
    const knownTemplates = () => [{ service: "api", template: "user <*> came" }];
    await using receiver = await openTestReceiver({
      workerFile,
      pool: { onPatterns: (patterns) => annotated.push(...patterns), knownTemplates },
    });
    const body = requestOf("api", [{ text: "user ada came" }, { text: "user bob came" }]);
    await receiver.receiver.accept({ signal: "logs", format: "json", encoding: "identity", body });
    expect(await receiver.rows(logRecord)).toHaveLength(2);
    expect(annotated).toMatchObject([{ template: "user <*> came", records: 2 }]);
  });
});
