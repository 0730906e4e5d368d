import { describe, expect, it } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { failureOf, isInvalidated, storeError } from "./duckdb-errors.ts";

describe("failureOf()", () => {
  it.each([
    ['IO Error: Could not write file "x": No space left on device', "no-space"],
    ['IO Error: Could not set lock on file "x": Conflicting lock is held in /usr/bin/node (PID 7)', "locked"],
    ["IO Error: Corrupt database file: computed checksum 1 does not match stored checksum 2 in block at location 3", "corrupt"],
    ["FATAL Error: Failed: database has been invalidated because of a previous fatal error", "invalidated"],
    ["INTERRUPT Error: Interrupted!", "interrupted"],
    ["Conversion Error: Could not convert string 'x' to INT32", "statement"],
  ] as const)("%s is %s", (text, failure) => {
    expect(failureOf(new Error(text))).toBe(failure);
  });

  // Users can put these words into a query, and agents into a row.
  it.each([
    "Corrupt database file",
    "Failure while replaying WAL",
    "has been invalidated",
    "No space left on device",
    "Out of Memory Error",
  ])("does not misread %s when a statement's error quotes it", (words) => {
    for (const text of [`Conversion Error: Could not convert string '${words}' to INT32`, `Invalid Input Error: ${words}`]) {
      expect(failureOf(new Error(text))).toBe("statement");
      expect(isInvalidated(new Error(text))).toBe(false);
    }
    const explained = new CoralError({ code: "invalid", message: `Cannot run SQL: Conversion Error: '${words}'` });
    expect(failureOf(explained)).toBe("other");
    expect(isInvalidated(explained)).toBe(false);
    expect(storeError("use", "f", explained)).toBe(explained);
  });
});
