import { createHash } from "node:crypto";
import { copyFileSync, renameSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree } from "../host-tree.fixture.ts";
import { createExecutableBuilds } from "./executable-builds.ts";

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

describe("createExecutableBuilds()", () => {
  it("hashes files without a build-id once, after the scan that needed it", async () => {
    using tree = createHostTree({ "bin/app": "one", "bin/copy": "one" });
    const builds = createExecutableBuilds(createHostRoot(tree.root));
    builds.beginScan();
    expect([builds.of("/bin/app")?.build, builds.of("/bin/app")?.build, builds.waiting]).toEqual([null, null, 1]);
    expect(await builds.hashWaiting()).toBe(1);
    expect(await builds.hashWaiting()).toBe(0);
    builds.beginScan();
    expect(builds.of("/bin/app")?.build).toEqual({ id: sha256("one"), kind: "sha256" });
    expect(builds.of("/bin/none")).toBeNull();
  });

  it("detects a file that was replaced, and one that was rewritten", async () => {
    using tree = createHostTree({ "bin/app": "one" });
    const builds = createExecutableBuilds(createHostRoot(tree.root));
    const now = async (): Promise<[string, string | undefined]> => {
      builds.beginScan();
      builds.of("/bin/app");
      await builds.hashWaiting();
      builds.beginScan();
      const file = builds.of("/bin/app");
      return [file!.key, file!.build?.id];
    };
    const [firstKey, first] = await now();
    writeFileSync(join(tree.root, "bin/next"), "two");
    renameSync(join(tree.root, "bin/next"), join(tree.root, "bin/app"));
    const [secondKey, second] = await now();
    utimesSync(join(tree.root, "bin/app"), 1_000, 1_000);
    const [thirdKey, third] = await now();
    expect(new Set([firstKey, secondKey, thirdKey]).size).toBe(3);
    expect([first, second, third]).toEqual([sha256("one"), sha256("two"), sha256("two")]);
  });

  it("reads the running program through its process", () => {
    const builds = createExecutableBuilds(createHostRoot());
    builds.beginScan();
    const running = builds.of(`/proc/${process.pid}/exe`);
    expect(running?.key).toBe(builds.of(process.execPath)?.key);
    expect(running?.build === null || running?.build.kind === "build-id").toBe(true);
  });

  it("retries a file that vanished before it was hashed", async () => {
    using tree = createHostTree({ "bin/app": "one" });
    const builds = createExecutableBuilds(createHostRoot(tree.root));
    builds.beginScan();
    builds.of("/bin/app");
    renameSync(join(tree.root, "bin/app"), join(tree.root, "bin/kept"));
    await builds.hashWaiting();
    renameSync(join(tree.root, "bin/kept"), join(tree.root, "bin/app"));
    builds.beginScan();
    expect([builds.of("/bin/app")?.build, builds.waiting]).toEqual([null, 1]);
  });

  it("stops hashing when aborted, and bounds its queue", async () => {
    using tree = createHostTree();
    const builds = createExecutableBuilds(createHostRoot(tree.root));
    for (let index = 0; index < 300; index++) {
      writeFileSync(join(tree.root, `app${index}`), `${index}`);
      builds.of(`/app${index}`);
    }
    expect([builds.waiting, builds.skipped]).toEqual([256, 44]);
    await expect(builds.hashWaiting(AbortSignal.abort(new Error("enough")))).rejects.toThrow("enough");
    copyFileSync(join(tree.root, "app0"), join(tree.root, "more"));
  });
});
