import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CoralError } from "./errors.ts";
import { errnoOf, fileError } from "./file-error.ts";

const failed = (code: string): Error => Object.assign(new Error(`${code}: something, write`), { code });

it.each([
  ["ENOSPC", "unavailable", 'Cannot write "/x": the disk is full; free some space'],
  ["EROFS", "not-permitted", 'Cannot write "/x": the file system is read-only; set CORAL_HOME elsewhere'],
  ["EMFILE", "unavailable", 'Cannot write "/x": too many open files; raise the limit of open files (ulimit -n)'],
  ["EIO", "internal", 'Cannot write "/x": EIO: something, write'],
])("names reason and fix of %s", (errno, code, message) => {
  expect(fileError("write", "/x", failed(errno))).toMatchObject({ code, message, details: { path: "/x" } });
});

it("keeps an error that is already explained", () => {
  const error = new CoralError({ code: "corrupt", message: "Cannot read" });
  expect(fileError("write", "/x", error)).toBe(error);
});

it("errnoOf() returns the code of failed system calls only", () => {
  const directory = mkdtempSync(join(tmpdir(), "coral-errno-"));
  writeFileSync(join(directory, "file"), "");
  try {
    readFileSync(join(directory, "file", "x"));
  } catch (error) {
    expect(errnoOf(error)).toBe("ENOTDIR");
  } finally {
    rmSync(directory, { recursive: true });
  }
  expect(errnoOf(new Error("x"))).toBeUndefined();
});
