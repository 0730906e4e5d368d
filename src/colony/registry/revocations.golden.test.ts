/** The golden file of revoked agents: losing it would let them in again. */

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Revocations } from "./revocations.ts";

const golden = "web-1-0badcafe\ndb.eu_west-1-12345678\n";

let file: string;
beforeEach(async () => {
  file = join(await mkdtemp(join(tmpdir(), "coral-revoked-")), "revoked");
});
afterEach(() => rm(join(file, ".."), { recursive: true, force: true }));

describe("the file of revoked agents", () => {
  it("is written as one id a line", async () => {
    const revocations = await Revocations.open(file);
    for (const id of ["web-1-0badcafe", "db.eu_west-1-12345678"]) await revocations.add(id);
    expect(await readFile(file, "utf8")).toBe(golden);
  });

  it("is read back", async () => {
    await writeFile(file, golden);
    const revocations = await Revocations.open(file);
    expect(["web-1-0badcafe", "db.eu_west-1-12345678", "web-1"].map((id) => revocations.has(id))).toEqual([true, true, false]);
  });
});
