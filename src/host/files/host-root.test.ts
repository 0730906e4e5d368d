import { execFileSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { createHostTree } from "../host-tree.fixture.ts";
import { createHostRoot, createReadTally } from "./host-root.ts";

describe("createHostRoot()", () => {
  it("reads files of any length, beyond its buffer", () => {
    const long = "0123456789".repeat(30_000);
    using tree = createHostTree({ "proc/long": long, "proc/empty": "" });
    const root = createHostRoot(`${tree.root}/`);
    expect(root.readText("/proc/long")).toBe(long);
    expect(root.readText("/proc/empty")).toBe("");
  });

  it("truncates at the limit and counts it", () => {
    using tree = createHostTree({ "proc/long": "x".repeat(200_000) });
    const tally = createReadTally();
    expect(createHostRoot(tree.root).readText("/proc/long", tally, 1000)).toHaveLength(1000);
    expect(tally.truncated).toBe(1);
  });

  it("counts missing files", () => {
    using tree = createHostTree({ file: "x" });
    const root = createHostRoot(tree.root);
    const tally = createReadTally();
    expect([root.readText("/a", tally), root.list("/b", tally), root.readLink("/c", tally), root.stat("/d", tally)]).toEqual([
      null,
      null,
      null,
      null,
    ]);
    expect(root.readPieces("/e", () => true, tally)).toBe(false);
    expect(root.readText("/file/below", tally)).toBeNull();
    expect(tally).toEqual({ denied: 0, vanished: 6, failed: 0, truncated: 0 });
    expect(root.readLink("/file", tally)).toBeNull();
    expect(tally.failed).toBe(1);
  });

  it.runIf(process.getuid?.() === 0)("counts files without read permission", () => {
    using tree = createHostTree({ "secret/file": "x" });
    chmodSync(tree.root, 0o755);
    chmodSync(join(tree.root, "secret"), 0o700);
    // Root may read everything, so the test runs as another user: this module as a script, bundled to plain JavaScript.
    const script = `
      import { createHostRoot, createReadTally } from ${JSON.stringify(join(tree.root, "host-root.mjs"))};
      process.setgid(65534); process.setuid(65534);
      const tally = createReadTally();
      createHostRoot(${JSON.stringify(tree.root)}).readText("/secret/file", tally);
      createHostRoot().list("/proc/1/fd", tally);
      console.log(JSON.stringify(tally));
    `;
    const source = fileURLToPath(new URL("./host-root.ts", import.meta.url));
    const esbuild = fileURLToPath(new URL("../../../node_modules/.bin/esbuild", import.meta.url));
    writeFileSync(join(tree.root, "host-root.mjs"), execFileSync(esbuild, ["--format=esm", "--target=node20", source]));
    writeFileSync(join(tree.root, "ask.mjs"), script);
    const tally = JSON.parse(execFileSync(process.execPath, [join(tree.root, "ask.mjs")], { encoding: "utf8" })) as unknown;
    expect(tally).toEqual({ denied: 2, vanished: 0, failed: 0, truncated: 0 });
  });

  it("lists directories only, and follows no link to one", () => {
    using tree = createHostTree({ "group/child": { directory: true }, "group/file": "x", "group/link": { link: "child" } });
    expect(createHostRoot(tree.root).listDirectories("/group")).toEqual(["child"]);
  });

  it("stops reading when the caller has enough", () => {
    using tree = createHostTree({ file: "x".repeat(300_000) });
    const pieces: number[] = [];
    createHostRoot(tree.root).readPieces("/file", (piece) => pieces.push(piece.length) < 2);
    expect(pieces).toEqual([65_536, 65_536]);
  });

  it("uses its own process's view on a real host", () => {
    expect(createHostRoot()).toMatchObject({ path: "/", viewpoint: "/proc/self" });
  });
});
