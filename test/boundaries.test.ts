import { readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { findImports, findViolations, rooms, type SourceFile } from "./boundaries.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

function readSources(): SourceFile[] {
  return readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ path: relative(root, path).split(sep).join("/"), text: readFileSync(path, "utf8") }));
}

const front = (room: string): SourceFile => ({
  path: `src/${room}/index.ts`,
  text: "/** A room.\n *\n * @module\n */\nexport { x } from './x.ts';\n",
});

describe("the tree", () => {
  it("follows the import table", () => {
    const sources = readSources();
    expect(sources.length).toBeGreaterThan(20);
    expect(findViolations(sources)).toEqual([]);
  });

  it("has project references that match the table", () => {
    for (const [name, room] of Object.entries(rooms)) {
      const config: { references?: { path: string }[] } = JSON.parse(readFileSync(join(root, "src", name, "tsconfig.json"), "utf8"));
      expect((config.references ?? []).map(({ path }) => path.replace("../", "")).sort(), name).toEqual([...room.rooms].sort());
    }
  });
});

describe("findImports()", () => {
  it.each([
    ['import { a } from "./a.ts";', "./a.ts", "static"],
    ['import a, {\n  type B,\n  c,\n} from "x";', "x", "static"],
    ['import * as y from "y";', "y", "static"],
    ['import "side-effect";', "side-effect", "static"],
    ['export { a } from "./b.ts";', "./b.ts", "static"],
    ['export * from "./b.ts";', "./b.ts", "static"],
    ['import type { T } from "t";', "t", "type"],
    ['export type { T } from "t";', "t", "type"],
    ['let k: typeof import("koffi");', "koffi", "type"],
    ['  const z = await import("zod");', "zod", "lazy"],
    ['const k = createRequire(import.meta.url)("koffi");', "koffi", "lazy"],
    ['const k = require("koffi");', "koffi", "lazy"],
  ])("finds %j", (text, specifier, kind) => {
    expect(findImports(text)).toEqual([{ specifier, kind }]);
  });

  it.each(['export const a = "x";', '// import "x";', '/* import "x"; */', 'const a = `import`; log("from")', 'export type A = "x";'])(
    "finds nothing in %j",
    (text) => {
      expect(findImports(text)).toEqual([]);
    },
  );
});

describe("findViolations()", () => {
  it.each<[string, SourceFile, string]>([
    ["a forbidden room", { path: "src/agent/a.ts", text: 'import { x } from "../colony/index.ts";' }, "agent may not import colony"],
    [
      "a forbidden room for a type",
      { path: "src/cli/a.ts", text: 'import type { X } from "../store/engine/index.ts";' },
      "cli may not import store",
    ],
    ["a forbidden room in a lazy import", { path: "src/cli/a.ts", text: 'await import("../agent/index.ts")' }, "cli may not import agent"],
    [
      "a back door",
      { path: "src/agent/a.ts", text: 'import { x } from "../store/engine/engine.ts";' },
      "other rooms import src/store/engine/index.ts only",
    ],
    ["a path out of src", { path: "src/base/a.ts", text: 'import "../../test/x.ts";' }, "leaves src/"],
    [
      "DuckDB outside the store",
      { path: "src/colony/a.ts", text: 'import { DuckDBInstance } from "@duckdb/node-api";' },
      "may not import this package",
    ],
    ["koffi outside bpf", { path: "src/host/a.ts", text: 'createRequire(import.meta.url)("koffi")' }, "host may not import this package"],
    ["a sub-path of a package", { path: "src/base/a.ts", text: 'import "zod/mini";' }, '"zod": base may not'],
    ["Node in tools", { path: "src/tools/a.ts", text: 'import { join } from "node:path";' }, "tools must not depend on Node"],
    ["Node without prefix in proto", { path: "src/proto/a.ts", text: 'import { join } from "path";' }, "proto must not depend on Node"],
    [
      "sockets outside transport",
      { path: "src/agent/a.ts", text: 'import { connect } from "node:net";' },
      "sockets are opened in src/transport/",
    ],
    [
      "a sub-folder that another may not import",
      { path: "src/agent/audit/a.ts", text: 'import { x } from "../link/x.ts";' },
      "agent/audit may not import agent/link",
    ],
    [
      "a sub-folder that imports the room's own files",
      { path: "src/agent/audit/a.ts", text: 'import { x } from "../agent.ts";' },
      "agent/audit may not import the room's own files",
    ],
    [
      "a sub-folder that is not in the table",
      { path: "src/agent/misc/a.ts", text: 'import { x } from "../link/x.ts";' },
      'sub-folder "misc" is not in the table of agent',
    ],
    ["zod by name", { path: "src/tools/a.ts", text: 'import { z } from "zod";' }, "zod is imported as a namespace"],
    ["a default export", { path: "src/base/a.ts", text: "export default 1;" }, "default exports"],
    ["export * in an index", { path: "src/base/index.ts", text: 'export * from "./a.ts";' }, "names each export"],
    ["a long file", { path: "src/base/a.ts", text: "//\n".repeat(801) }, "longer than 800 lines"],
    ["/proc outside host", { path: "src/agent/a.ts", text: 'readFileSync("/proc/stat")' }, "only host reads /proc"],
    [
      "another file of /proc/self",
      { path: "src/base/a.ts", text: "open(`/proc/self/fd/3`); open(`/proc/self/maps`)" },
      "only host reads /proc",
    ],
    ["an unknown room", { path: "src/utils/a.ts", text: "" }, "not in the import table"],
    ["the test runner in the product", { path: "src/base/a.ts", text: 'import { it } from "vitest";' }, "may not import this package"],
  ])("reports %s", (_name, file, message) => {
    const others = ["agent", "cli", "colony", "host", "tools"].map(front);
    const found = findViolations([...others, file]);
    expect(found).toHaveLength(1);
    expect(found[0]).toContain(file.path);
    expect(found[0]).toContain(message);
  });

  it("reports a room without an index.ts or without its @module comment", () => {
    expect(findViolations([{ path: "src/host/a.ts", text: "" }])).toEqual(["src/host: index.ts is missing"]);
    const later = "/** About x. */\nexport { x } from './x.ts';\n/** @module */\n";
    expect(findViolations([{ path: "src/host/index.ts", text: later }])).toEqual([
      "src/host/index.ts: does not start with a @module comment",
    ]);
  });

  it("reports a folder with too many source files, not counting tests and fixtures", () => {
    const many = Array.from({ length: 26 }, (_, index) => ({ path: `src/base/file-${index}.ts`, text: "" }));
    expect(findViolations(many)).toEqual(["src/base: 26 source files, more than 25"]);
    const tests = many.slice(1).map(({ path, text }) => ({ path: path.replace(".ts", ".test.ts"), text }));
    expect(findViolations([...many.slice(1), ...tests])).toEqual([]);
  });

  it("reports modules that every command would load, with the import path", () => {
    const files = [
      { path: "src/main/coral.ts", text: 'import { runCli } from "../cli/index.ts";' },
      { ...front("cli"), text: '/** @module */\nexport { runCli } from "./run.ts";' },
      {
        path: "src/cli/run.ts",
        text: 'import type { A } from "../tools/index.ts";\nimport { load } from "../config/index.ts";\nawait import("../transport/index.ts");',
      },
      front("config"),
    ];
    expect(findViolations(files)).toEqual([
      'src/cli/run.ts: "../config/index.ts" is loaded by every command (src/main/coral.ts → src/cli/index.ts → src/cli/run.ts); use import() where it is needed',
    ]);
  });

  it("accepts what the table allows", () => {
    const files = [
      front("agent"),
      front("store/engine"),
      {
        path: "src/agent/a.ts",
        text: 'import { x } from "../store/engine/index.ts";\nimport { y } from "../base/errors.ts";\nimport { readFile } from "node:fs/promises";',
      },
      { path: "src/agent/a.test.ts", text: 'import { it } from "vitest";\nimport { createServer } from "node:net";' },
      { path: "src/store/engine/b.ts", text: 'import duckdb from "@duckdb/node-bindings";' },
    ];
    expect(findViolations(files)).toEqual([]);
  });
});
