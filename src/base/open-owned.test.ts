import {
  closeSync,
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { lchown } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { inDirectory, openOwned, readOwned } from "./open-owned.ts";

const owner = { uid: 65_534, gid: 65_534 };
const create = constants.O_WRONLY | constants.O_CREAT;
let root: string;
let home: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "coral-owned-"));
  home = join(root, "home");
  mkdirSync(home);
  writeFileSync(join(root, "secret"), "root's");
});
afterEach(() => rmSync(root, { recursive: true }));

describe.runIf(process.geteuid?.() === 0)("openOwned() as root for another user", () => {
  it("creates a file owned by that user", () => {
    closeSync(openOwned(join(home, "log"), create, 0o600, owner));
    expect(statSync(join(home, "log"))).toMatchObject({ uid: owner.uid, gid: owner.gid });
  });

  it("follows no symbolic link of that user, neither as the file nor on its path", async () => {
    symlinkSync(join(root, "secret"), join(home, "log"));
    symlinkSync(root, join(home, "data"));
    symlinkSync(join(root, "made"), join(home, "new"));
    for (const name of ["log", "data", "new"]) await lchown(join(home, name), owner.uid, owner.gid);
    for (const path of ["log", "data/secret", "data/other", "new"]) {
      expect(() => openOwned(join(home, path), create | constants.O_TRUNC, 0o600, owner)).toThrow(
        /symbolic link; remove it, or start without sudo/,
      );
    }
    for (const path of ["log", "data/secret"])
      expect(() => readOwned(join(home, path), owner)).toThrow(/symbolic link; remove it, or start without sudo/);
    writeFileSync(join(home, "own"), "mine");
    expect(String(readOwned(join(home, "own"), owner))).toBe("mine");
    expect(readFileSync(join(root, "secret"), "utf8")).toBe("root's");
    expect(statSync(join(root, "secret")).uid).toBe(0);
    expect(existsSync(join(root, "made")) || existsSync(join(root, "other"))).toBe(false);
  });

  it("does not change the owner of hard-linked files, or of files of a third user", () => {
    linkSync(join(root, "secret"), join(home, "hard"));
    expect(() => openOwned(join(home, "hard"), create, 0o600, owner)).toThrow("has several hard links");
    expect(statSync(join(root, "secret")).uid).toBe(0);
  });

  it("follows symbolic links of root on the path", () => {
    symlinkSync("home", join(root, "relative"));
    symlinkSync(home, join(root, "absolute"));
    closeSync(openOwned(join(root, "relative/a"), create, 0o600, owner));
    closeSync(openOwned(join(root, "absolute/b"), create, 0o600, owner));
    expect(existsSync(join(home, "a")) && existsSync(join(home, "b"))).toBe(true);
  });

  it("stays in a directory that is replaced by a symbolic link meanwhile", () => {
    inDirectory(home, (directory) => {
      rmSync(home, { recursive: true });
      symlinkSync(root, home);
      expect(() => writeFileSync(`${directory}/x`, "")).toThrow("ENOENT");
    });
    expect(existsSync(join(root, "x"))).toBe(false);
  });
});

it("openOwned() without an owner follows symbolic links, as any program of a user does", () => {
  symlinkSync(join(root, "secret"), join(home, "log"));
  closeSync(openOwned(join(home, "log"), constants.O_RDONLY, 0o600, undefined));
});
