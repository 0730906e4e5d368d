import { chmod, lchown, lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { makePrivateDirectory, sudoOwner, writePrivateFile } from "./ownership.ts";

const isRoot = process.geteuid?.() === 0;
let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "coral-own-"));
});
afterEach(() => rm(home, { recursive: true, force: true }));

describe("sudoOwner()", () => {
  it.each([
    [{ SUDO_UID: "1000", SUDO_GID: "1001" }, 0, { uid: 1000, gid: 1001 }],
    [{ SUDO_UID: "1000", SUDO_GID: "1001" }, 1000, undefined],
    [{ SUDO_UID: "0", SUDO_GID: "0" }, 0, undefined],
    [{ SUDO_UID: "1000" }, 0, undefined],
    [{ SUDO_UID: "x", SUDO_GID: "1" }, 0, undefined],
    [{ SUDO_UID: "-1", SUDO_GID: "1" }, 0, undefined],
    [{}, 0, undefined],
  ])("of %j as uid %j is %j", (env, uid, expected) => {
    expect(sudoOwner(env, uid)).toEqual(expected);
  });
});

describe("writePrivateFile()", () => {
  it("creates directories 0700 and the file 0600 despite a lax umask", async () => {
    const before = process.umask(0);
    try {
      await writePrivateFile(join(home, "a/b/key.pem"), "secret");
    } finally {
      process.umask(before);
    }
    expect((await stat(join(home, "a"))).mode & 0o777).toBe(0o700);
    expect((await stat(join(home, "a/b"))).mode & 0o777).toBe(0o700);
    expect((await stat(join(home, "a/b/key.pem"))).mode & 0o777).toBe(0o600);
    expect(await readFile(join(home, "a/b/key.pem"), "utf8")).toBe("secret");
  });

  it("replaces a file or a link atomically and leaves no temporary file", async () => {
    const target = join(home, "elsewhere");
    await writeFile(target, "theirs");
    await symlink(target, join(home, "x"));
    await writePrivateFile(join(home, "x"), "ours");
    expect(await readFile(target, "utf8")).toBe("theirs");
    expect((await lstat(join(home, "x"))).isFile()).toBe(true);
    expect((await readdir(home)).sort()).toEqual(["elsewhere", "x"]);
  });

  it("reports the cause of a failure and removes its temporary file", async () => {
    await writeFile(join(home, "file"), "");
    await expect(writePrivateFile(join(home, "file/x"), "")).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("a file exists where the directory should be") as unknown,
    });
    await mkdir(join(home, "taken"));
    await expect(writePrivateFile(join(home, "taken"), "")).rejects.toThrow("Cannot write");
    expect((await readdir(home)).sort()).toEqual(["file", "taken"]);
  });

  it("names a directory without write permission", async (context) => {
    context.skip(isRoot, "root may write everywhere");
    await chmod(home, 0o500);
    await expect(writePrivateFile(join(home, "x"), "")).rejects.toMatchObject({ code: "not-permitted" });
    await chmod(home, 0o700);
  });

  it("changes the owner of what it creates, and of nothing else", async (context) => {
    context.skip(!isRoot, "needs root to change owners");
    const owner = { uid: 12345, gid: 23456 };
    await writePrivateFile(join(home, "p/q/f"), "x", { owner });
    for (const path of ["p", "p/q", "p/q/f"]) expect(await stat(join(home, path))).toMatchObject(owner);
    expect((await stat(home)).uid).toBe(0);
    await makePrivateDirectory(join(home, "d/e"), owner);
    expect(await stat(join(home, "d/e"))).toMatchObject(owner);
  });
});

it("makePrivateDirectory() is idempotent and safe to call concurrently", async () => {
  const path = join(home, "a/b/c");
  await Promise.all(Array.from({ length: 8 }, () => makePrivateDirectory(path)));
  await makePrivateDirectory(path);
  expect((await stat(path)).isDirectory()).toBe(true);
});

describe.runIf(isRoot)("as root for the user who ran sudo", () => {
  const owner = { uid: 65_534, gid: 65_534 };

  it("creates nothing behind a link of that user", async () => {
    await mkdir(join(home, "elsewhere"));
    await symlink(join(home, "elsewhere"), join(home, "link"));
    await lchown(join(home, "link"), owner.uid, owner.gid);
    await expect(makePrivateDirectory(join(home, "link/data"), owner)).rejects.toThrow("symbolic link");
    await expect(writePrivateFile(join(home, "link/file"), "x", { owner })).rejects.toThrow("symbolic link");
    await expect(writePrivateFile(join(home, "link/deep/file"), "x", { owner })).rejects.toThrow("symbolic link");
    expect(await readdir(join(home, "elsewhere"))).toEqual([]);
    expect((await stat(join(home, "elsewhere"))).uid).toBe(0);
  });

  it("gives that user what it makes", async () => {
    await writePrivateFile(join(home, "a/b/file"), "x", { owner });
    for (const path of ["a", "a/b", "a/b/file"]) expect([path, (await stat(join(home, path))).uid]).toEqual([path, owner.uid]);
  });
});
