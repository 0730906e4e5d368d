import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createCommandNamer, programName } from "./program-name.ts";

let root: string;
let script: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "coral-name-"));
  for (const directory of ["checkout/bin", "path", "other", "my dir/bin"]) mkdirSync(join(root, directory), { recursive: true });
  script = join(root, "checkout/bin/coral");
  writeFileSync(script, "");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const nameIn = (directory: string, path = ""): string =>
  programName({ script, env: { PATH: path }, currentDirectory: () => join(root, directory) });

describe("programName()", () => {
  it("is coral when that name in PATH is this program", () => {
    symlinkSync(script, join(root, "path/coral"));
    expect(nameIn("other", `${root}/missing:${root}/path`)).toBe("coral");
  });

  it("is the path when PATH has another program or none", () => {
    writeFileSync(join(root, "other/coral"), "");
    chmodSync(join(root, "other/coral"), 0o755);
    expect(nameIn("checkout", `${root}/other`)).toBe("bin/coral");
    expect(nameIn("checkout")).toBe("bin/coral");
    expect(nameIn("checkout/bin")).toBe("./coral");
    expect(nameIn("other")).toBe(script);
  });

  it("is quoted when necessary", () => {
    script = join(root, "my dir/bin/coral");
    expect(nameIn("other")).toBe(`'${script}'`);
  });

  it("is the full path when the current directory is gone, and keeps a bare name", () => {
    const gone = (): string => {
      throw new Error("ENOENT");
    };
    expect(programName({ script, env: {}, currentDirectory: gone })).toBe(script);
    expect(programName({ script: "coral", env: {}, currentDirectory: gone })).toBe("coral");
  });
});

it("createCommandNamer() rewrites commands only, and searches PATH once", () => {
  let looks = 0;
  const name = createCommandNamer(["status", "up"], () => {
    looks++;
    return "bin/coral";
  });
  expect(name("coral has stopped; coral 0.1.0, coral_get_status")).toBe("coral has stopped; coral 0.1.0, coral_get_status");
  expect(looks).toBe(0);
  expect(name('start it with "coral up" · coral status --watch · /x/coral up · coral upper')).toBe(
    'start it with "bin/coral up" · bin/coral status --watch · /x/coral up · coral upper',
  );
  expect(looks).toBe(1);
});
