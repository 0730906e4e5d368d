import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CoralError, errnoOf, exitCodeOf, fileError, httpStatusOf, isErrorCode } from "./errors.ts";

it("CoralError.from() keeps a CoralError, wraps others with their cause, and calls an abort cancelled", () => {
  const own = new CoralError({ code: "not-found", message: "x" });
  expect(CoralError.from(own)).toBe(own);
  const cause = new TypeError("boom");
  expect(CoralError.from(cause)).toMatchObject({ code: "internal", message: "boom", cause });
  expect(CoralError.from("text", "invalid")).toMatchObject({ code: "invalid", message: "text" });
  expect(CoralError.from(new DOMException("stop", "AbortError")).code).toBe("cancelled");
});

it("CoralError.from() reports the first failure when closing fails after it", () => {
  const first = new CoralError({ code: "already-exists", message: "port taken" });
  const suppressed = Object.assign(new Error("An error was suppressed during disposal"), {
    name: "SuppressedError",
    error: new Error("late"),
    suppressed: first,
  });
  expect(CoralError.from(suppressed)).toBe(first);
});

it("exit codes follow the contract of the CLI", () => {
  const contract = {
    usage: 64,
    unsupported: 2,
    "not-permitted": 3,
    unauthenticated: 3,
    "not-found": 4,
    internal: 1,
    unavailable: 1,
  } as const;
  for (const [code, exit] of Object.entries(contract)) expect(exitCodeOf(code as keyof typeof contract)).toBe(exit);
});

it("isErrorCode() accepts only codes that have an HTTP status", () => {
  expect(isErrorCode("timeout")).toBe(true);
  expect(isErrorCode("toString")).toBe(false);
  expect(httpStatusOf("timeout")).toBe(504);
});

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
