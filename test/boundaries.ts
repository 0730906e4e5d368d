/** The import table of the tree, and a checker for it that works on plain text: no compiler API, and fast enough to run on every check. */

import { builtinModules } from "node:module";
import { posix } from "node:path";

interface Room {
  /** Other rooms that it may import. */
  rooms: readonly string[];
  /** npm packages that it may import; a test may also import the test runner. */
  packages: readonly string[];
  /** False for rooms that must also run in a browser or a sandbox. */
  node?: false;
}

const daemonBasics = ["base", "proto", "config", "store", "mesh"];
const rpc = ["@bufbuild/protobuf", "@connectrpc/connect"];

/** Who may enter which room. Adding a line here is a decision: say why in docs/decisions/. */
export const rooms: Readonly<Record<string, Room>> = {
  base: { rooms: [], packages: [] },
  proto: { rooms: ["base"], packages: ["@bufbuild/protobuf"], node: false },
  config: { rooms: ["base"], packages: ["yaml", "zod"] },
  probes: { rooms: ["base"], packages: ["koffi", "iced-x86"] },
  host: { rooms: ["base", "proto"], packages: ["@bufbuild/protobuf"] },
  traffic: { rooms: ["base", "probes", "host"], packages: [] },
  exec: { rooms: ["base", "host"], packages: ["@lydell/node-pty"] },
  store: { rooms: ["base"], packages: ["@duckdb/node-bindings"] },
  otlp: { rooms: ["base", "store"], packages: [] },
  mesh: { rooms: ["base", "proto"], packages: [...rpc, "@connectrpc/connect-node", "@peculiar/x509", "reflect-metadata"] },
  tools: { rooms: ["base", "proto"], packages: ["zod"], node: false },
  mcp: { rooms: ["base", "proto", "tools"], packages: ["@modelcontextprotocol/server", "zod"] },
  agent: { rooms: [...daemonBasics, "probes", "host", "traffic", "exec", "otlp", "tools"], packages: rpc },
  colony: { rooms: [...daemonBasics, "otlp", "tools", "mcp"], packages: rpc },
  cli: { rooms: ["base", "proto", "config", "tools", "mcp", "mesh"], packages: ["commander", "yaml"] },
  main: {
    rooms: [
      "base",
      "proto",
      "config",
      "probes",
      "host",
      "traffic",
      "exec",
      "store",
      "otlp",
      "mesh",
      "tools",
      "mcp",
      "agent",
      "colony",
      "cli",
    ],
    packages: [],
  },
};

/** Rooms without a front door: their files are imported one by one. */
const openRooms = new Set(["base", "proto"]);
/** What every `coral` command loads before it knows which command it is. */
const startUp = { entry: "src/main/coral.ts", rooms: new Set(["base", "cli", "main"]), packages: new Set(["commander"]) };
/** Sockets are opened in `mesh`; `main` asks whether a port is free, `host` asks the container runtime of its machine. */
const networkModules = { modules: new Set(["net", "tls", "http", "https", "http2", "dgram"]), rooms: new Set(["mesh", "main"]) };
/** Where in `host`. */
const runtimeDirectory = "src/host/runtime/";
const testPackages = new Set(["vitest", "esbuild", "@modelcontextprotocol/client", "@grpc/grpc-js"]);
const maxLines = 800;

export interface SourceFile {
  /** Relative to the checkout, with slashes. */
  path: string;
  text: string;
}

export interface ImportFound {
  specifier: string;
  /** `static` runs when the file is loaded; `lazy` when a line runs; `type` never. */
  kind: "static" | "lazy" | "type";
}

const staticImport = /^[ \t]*(?:import|export)\s+(?:(type)\s+(?!from\b))?(?:[\w\s*{},$]+?\s+from\s+)?["']([^"']+)["']/gm;
const dynamicImport = /(\btypeof\s+)?\bimport\(\s*["']([^"']+)["']/g;
const requireCall = /(?:\brequire|\bcreateRequire\([^()]*\))\(\s*["']([^"']+)["']/g;

/** Every module that a TypeScript file names, in any form. Comments are ignored. */
export function findImports(text: string): ImportFound[] {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^[ \t]*\/\/.*$/gm, "");
  const found: ImportFound[] = [];
  for (const [, type, specifier = ""] of code.matchAll(staticImport)) found.push({ specifier, kind: type ? "type" : "static" });
  for (const [, type, specifier = ""] of code.matchAll(dynamicImport)) found.push({ specifier, kind: type ? "type" : "lazy" });
  for (const [, specifier = ""] of code.matchAll(requireCall)) found.push({ specifier, kind: "lazy" });
  return found;
}

/** All breaches in the files of src/, one line each: `path: what is wrong`. */
export function findViolations(files: readonly SourceFile[]): string[] {
  return [...files.flatMap(fileViolations), ...frontDoorViolations(files), ...startUpViolations(files)];
}

function roomOf(path: string): string {
  return path.split("/")[1] ?? "";
}

function fileViolations({ path, text }: SourceFile): string[] {
  const room = rooms[roomOf(path)];
  if (room === undefined) return [`${path}: room "${roomOf(path)}" is not in the import table`];
  const isTest = /\.(?:test|fixture)\.ts$/.test(path);
  const problems = findImports(text).flatMap(({ specifier }) => importProblem(path, room, specifier, isTest) ?? []);
  if (/^export\s+default\b/m.test(text)) problems.push("default exports are not used");
  if (path.endsWith("/index.ts") && /^export\s+\*/m.test(text)) problems.push("index.ts names each export");
  // `{ z }` cannot be shaken: it brings error messages in every language, half a megabyte, into each daemon.
  if (/^import\s+(?:type\s+)?\{[^}]*\}\s+from\s+"zod"/m.test(text))
    problems.push('zod is imported as a namespace: import * as z from "zod"');
  // Generated code is exempt: its length is that of the contract.
  if (!path.startsWith("src/proto/") && text.split("\n").length > maxLines + 1) problems.push(`longer than ${maxLines} lines`);
  if (!isTest && roomOf(path) !== "host" && /["'`]\/(?:proc|sys)\//.test(text)) problems.push("only host reads /proc and /sys");
  return problems.map((problem) => `${path}: ${problem}`);
}

function importProblem(path: string, room: Room, specifier: string, isTest: boolean): string | undefined {
  if (specifier.startsWith(".")) return relativeProblem(path, room, specifier);
  const own = roomOf(path);
  const builtin = specifier.startsWith("node:") ? specifier.slice(5) : builtinModules.includes(specifier) ? specifier : undefined;
  if (builtin !== undefined) {
    if (isTest) return undefined;
    if (room.node === false) return `"${specifier}": ${own} must not depend on Node`;
    const mayConnect = networkModules.rooms.has(own) || path.startsWith(runtimeDirectory);
    const forbidden = networkModules.modules.has(builtin) && !mayConnect;
    return forbidden ? `"${specifier}": only ${[...networkModules.rooms].join(" and ")} may open sockets` : undefined;
  }
  const name = specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
  if (room.packages.includes(name) || (isTest && testPackages.has(name))) return undefined;
  return `"${name}": ${own} may not import this package`;
}

function relativeProblem(path: string, room: Room, specifier: string): string | undefined {
  const target = posix.join(posix.dirname(path), specifier);
  if (!target.startsWith("src/")) return `"${specifier}" leaves src/`;
  const other = roomOf(target);
  if (other === roomOf(path)) return undefined;
  if (!room.rooms.includes(other)) return `"${specifier}": ${roomOf(path)} may not import ${other}`;
  if (openRooms.has(other) || target === `src/${other}/index.ts`) return undefined;
  return `"${specifier}": other rooms import src/${other}/index.ts only`;
}

function frontDoorViolations(files: readonly SourceFile[]): string[] {
  const present = new Set(files.map(({ path }) => roomOf(path)));
  return [...present].flatMap((room) => {
    if (openRooms.has(room) || room === "main" || rooms[room] === undefined) return [];
    const index = files.find(({ path }) => path === `src/${room}/index.ts`);
    if (index === undefined) return [`src/${room}: index.ts is missing`];
    return /^\/\*\*(?:(?!\*\/)[\s\S])*@module(?:(?!\*\/)[\s\S])*\*\//.test(index.text)
      ? []
      : [`${index.path}: does not open with a @module comment`];
  });
}

/** Follows static imports from the entry point: anything heavy must be behind import(), or every command pays for it. */
function startUpViolations(files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const violations: string[] = [];
  const cameFrom = new Map<string, string>();
  const queue = byPath.has(startUp.entry) ? [startUp.entry] : [];
  for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
    for (const { specifier, kind } of findImports(byPath.get(path)?.text ?? "")) {
      if (kind !== "static" || specifier.startsWith("node:")) continue;
      const target = specifier.startsWith(".") ? posix.join(posix.dirname(path), specifier) : specifier;
      if (cameFrom.has(target)) continue;
      cameFrom.set(target, path);
      const allowed = specifier.startsWith(".") ? startUp.rooms.has(roomOf(target)) : startUp.packages.has(specifier);
      if (!allowed)
        violations.push(`${path}: "${specifier}" is loaded by every command (${trail(cameFrom, path)}); use import() where it is needed`);
      else if (byPath.has(target)) queue.push(target);
    }
  }
  return violations;
}

function trail(cameFrom: ReadonlyMap<string, string>, path: string): string {
  const steps = [path];
  for (let from = cameFrom.get(path); from !== undefined && steps.length < 20; from = cameFrom.get(from)) steps.unshift(from);
  return steps.join(" → ");
}
