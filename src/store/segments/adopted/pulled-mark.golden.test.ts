/** The golden pull progress file. Without it, an agent that lost its database offers every segment again. */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../store.fixture.ts";
import { readPulledMark, writePulledMark } from "./pulled-mark.ts";

const golden = '{"epoch":"0e6c5c0a-6a7e-4b52-9d0f-3a1f5d7c9b21","pulled":{"span":17,"log":4}}';
const mark = { epoch: "0e6c5c0a-6a7e-4b52-9d0f-3a1f5d7c9b21", pulled: { span: 17, log: 4 } };

test("pulled.json is written byte for byte, and read back", () => {
  using folder = temporaryFolder();
  writePulledMark(folder.path, mark);
  expect(readFileSync(join(folder.path, "pulled.json"), "utf8")).toBe(golden);
  const other = folder.file("other");
  mkdirSync(other);
  writeFileSync(join(other, "pulled.json"), golden);
  expect(readPulledMark(other)).toEqual(mark);
});
