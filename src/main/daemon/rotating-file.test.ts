import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { RotatingFile } from "./rotating-file.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-log-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

it("write() rotates at the size limit and keeps only the newest files", () => {
  const path = join(directory, "x.log");
  using file = new RotatingFile({ path, maxBytes: 100, keep: 2 });
  for (let index = 0; index < 40; index++) file.write(`line ${String(index).padStart(3, "0")}\n`);
  expect(readFileSync(path, "utf8").endsWith("line 039\n")).toBe(true);
  expect(statSync(path).size).toBeLessThanOrEqual(100);
  expect(existsSync(`${path}.2`)).toBe(true);
  expect(existsSync(`${path}.3`)).toBe(false);
  expect(file.lost).toBe(0);
});

it("a new RotatingFile appends to the existing file, and files have mode 0600", () => {
  const path = join(directory, "x.log");
  {
    using file = new RotatingFile({ path });
    file.write("one\n");
  }
  using file = new RotatingFile({ path });
  file.write("two\n");
  expect(readFileSync(path, "utf8")).toBe("one\ntwo\n");
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

it("write() counts a line that cannot be written and continues", () => {
  const path = join(directory, "x.log");
  using file = new RotatingFile({ path, maxBytes: 10 });
  file.write("0123456789");
  rmSync(directory, { recursive: true });
  file.write("lost line\n");
  expect(file.lost).toBe(1);
});
