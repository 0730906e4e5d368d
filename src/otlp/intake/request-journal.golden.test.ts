/** The golden file of recent OTLP requests. If it cannot be read, a request repeated across a restart or update is stored twice. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { requestKey } from "./repeated-requests.ts";
import { RequestJournal } from "./request-journal.ts";

const nowMs = 1_700_000_000_000;
const bodies = [
  ["traces", Buffer.from("one")],
  ["logs", Buffer.alloc(100_000, "b")],
  ["metrics", Buffer.from("three")],
] as const;
/** Key and time of each, as little-endian doubles. */
const golden = ["24899b9bb7c03f4300008056febc7842956dc55a63593c4300008056febc7842", "960586705e00374300008056febc7842"].join("");

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-journal-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

const open = (file: string): RequestJournal => new RequestJournal({ file, unsealed: [], nowMs: () => nowMs, log: silentLogger });

test("otlp-requests.bin is written as the golden one", async () => {
  const file = join(directory, "otlp-requests.bin");
  using journal = open(file);
  for (const [signal, body] of bodies) await journal.add(requestKey(signal, body));
  expect(readFileSync(file).toString("hex")).toBe(golden);
});

test("otlp-requests.bin is read back", () => {
  const file = join(directory, "otlp-requests.bin");
  writeFileSync(file, Buffer.from(golden, "hex"));
  using journal = open(file);
  expect(journal.recent(300_000)).toEqual(bodies.map(([signal, body]) => requestKey(signal, body)));
});
