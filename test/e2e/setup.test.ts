import { spawnSync } from "node:child_process";
import { appendFileSync, cpSync, existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const checkout = fileURLToPath(new URL("../../", import.meta.url));
const parts = ["bin", "scripts", "src", "probes", "proto", "package.json", "package-lock.json", "buf.yaml", "buf.gen.yaml"];

let parent: string;
let copy: string;

function node(...args: string[]): { code: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: tmpdir(),
    encoding: "utf8",
    env: { ...process.env, CI: "true" },
  });
  return { code: status, stdout, stderr };
}

describe("setup in a fresh copy, in a directory with a space", () => {
  beforeAll(() => {
    parent = mkdtempSync(join(tmpdir(), "coral setup "));
    copy = join(parent, "a copy");
    for (const part of parts) cpSync(join(checkout, part), join(copy, part), { recursive: true });
    symlinkSync(join(checkout, "node_modules"), join(copy, "node_modules"));
  });
  afterAll(() => rmSync(parent, { recursive: true, force: true }));

  it("bin/coral explains how to build it", () => {
    const { code, stderr } = node(join(copy, "bin/coral"), "version");
    expect(code).toBe(1);
    expect(stderr).toContain(`it is not built; run "npm run setup" in "${copy}/"`);
  });

  it("builds once, then has nothing to do", () => {
    const first = node(join(copy, "scripts/setup.mjs"));
    expect(first.stderr).toContain("✓ bundle");
    expect(first.code).toBe(0);
    expect(existsSync(join(copy, "dist/coral.js"))).toBe(true);

    const second = node(join(copy, "scripts/setup.mjs"));
    expect(second.stderr).not.toContain("✓");
    expect(second.code).toBe(0);
  });

  it("bin/coral runs from any directory", () => {
    const { code, stdout } = node(join(copy, "bin/coral"), "version");
    expect(stdout).toMatch(/\d+\.\d+\.\d+/);
    expect(code).toBe(0);
  });

  it("rebuilds after a source change, and reports the line of a syntax error", () => {
    appendFileSync(join(copy, "src/main/coral.ts"), "\n// changed\n");
    expect(node(join(copy, "scripts/setup.mjs")).stderr).toContain("✓ bundle");
    appendFileSync(join(copy, "src/main/coral.ts"), "\nconst broken = ;\n");
    const failed = node(join(copy, "scripts/setup.mjs"));
    expect(failed.stderr).toContain("coral.ts");
    expect(failed.stderr).toContain("Cannot bundle src/; fix the errors above");
    expect(failed.code).toBe(1);
  });
});
