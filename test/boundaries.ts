/** The import table of the tree, and a checker that works on plain text: without the compiler API, fast enough for every check. */

import { builtinModules } from "node:module";
import { posix } from "node:path";

interface Room {
  /** Other rooms that it may import. */
  rooms: readonly string[];
  /** npm packages that it may import; a test may also import the test runner. */
  packages: readonly string[];
  /** False for rooms that must also run in a browser or a sandbox. */
  node?: false;
  /**
   * Sub-folders, and which of their siblings each may import. Files in the room's own folder are its composition: they may import every
   * sub-folder, and no sub-folder may import them. Folders below a sub-folder belong to it.
   */
  folders?: Readonly<Record<string, readonly string[]>>;
}

const daemonBasics = ["base", "proto", "model", "config", "redact", "store", "transport"];
const rpc = ["@bufbuild/protobuf", "@connectrpc/connect"];

/** Which room may import which. Adding a line here is a decision: explain it in docs/decisions/. */
export const rooms: Readonly<Record<string, Room>> = {
  base: { rooms: [], packages: [] },
  proto: { rooms: ["base"], packages: ["@bufbuild/protobuf"], node: false },
  model: { rooms: ["base"], packages: [], node: false },
  diagnosis: { rooms: ["base", "model"], packages: [], node: false },
  config: {
    rooms: ["base", "model"],
    packages: ["yaml", "zod"],
    folders: { schema: [], home: ["schema"], agent: ["home", "schema"], colony: ["home", "schema"] },
  },
  redact: { rooms: ["base"], packages: [] },
  code: { rooms: ["base"], packages: ["iced-x86"] },
  bpf: { rooms: ["base"], packages: ["koffi"] },
  host: {
    rooms: ["base", "proto", "model", "redact", "code"],
    packages: ["@bufbuild/protobuf"],
    folders: {
      files: [],
      cgroups: ["files"],
      logs: ["files"],
      metrics: ["files"],
      naming: ["cgroups", "files"],
      processes: ["cgroups", "files", "naming"],
      code: ["files", "processes"],
      sockets: ["files", "metrics", "naming", "processes"],
      runtime: ["cgroups", "files", "metrics", "naming", "processes"],
    },
  },
  traffic: {
    rooms: ["base", "model", "redact", "bpf", "code", "host"],
    packages: [],
    folders: {
      core: [],
      requests: ["core"],
      protocols: ["core", "requests"],
      streams: ["core", "protocols", "requests"],
      kernel: ["core", "protocols", "requests", "streams"],
      capture: ["core", "requests", "streams"],
      tls: ["core", "kernel"],
    },
  },
  profile: {
    rooms: ["base", "bpf", "code", "host"],
    packages: [],
    folders: { core: [], kernel: ["core"], stacks: ["core", "kernel"] },
  },
  databases: {
    rooms: ["base", "model", "redact"],
    packages: [],
    folders: { plans: [], wire: [], mysql: ["plans", "wire"], postgres: ["plans", "wire"], redis: ["wire"] },
  },
  exec: {
    rooms: ["base", "redact", "host"],
    packages: ["@lydell/node-pty"],
    folders: { policy: [], processes: ["policy"], recordings: ["processes"] },
  },
  store: {
    rooms: ["base", "model"],
    packages: ["@duckdb/node-bindings", "@prometheus-io/lezer-promql"],
    folders: {
      engine: [],
      signals: ["engine"],
      columns: ["engine", "signals"],
      tables: ["columns", "engine", "signals"],
      segments: ["engine", "signals", "tables"],
      discovery: ["engine", "tables"],
      queries: ["discovery", "engine", "segments", "signals", "tables"],
      sql: ["columns", "discovery", "engine", "queries", "segments", "signals", "tables"],
      agent: ["columns", "engine", "segments", "signals", "tables"],
      colony: ["columns", "engine", "segments", "signals", "sql", "tables"],
      audit: ["colony", "columns", "engine", "signals", "tables"],
    },
  },
  transport: {
    rooms: ["base", "proto", "model"],
    packages: [...rpc, "@connectrpc/connect-node", "@peculiar/x509", "reflect-metadata"],
    folders: { trust: [], http: ["trust"], tunnel: ["http", "trust"], commands: ["http", "trust", "tunnel"] },
  },
  otlp: {
    rooms: ["base", "redact", "store", "transport"],
    packages: ["fzstd"],
    folders: {
      columns: [],
      decode: ["columns"],
      json: ["columns", "decode"],
      logs: ["json"],
      prometheus: ["decode"],
      intake: ["columns", "decode", "json", "logs"],
      servers: [],
    },
  },
  tools: {
    rooms: ["base", "proto", "model", "diagnosis"],
    packages: ["zod"],
    node: false,
    folders: {
      schemas: [],
      contract: ["schemas"],
      agents: ["contract", "schemas"],
      audit: ["contract", "schemas"],
      host: ["contract", "schemas"],
      profile: ["contract", "schemas", "services"],
      services: ["contract", "schemas"],
      tokens: ["contract", "schemas"],
      commands: ["contract", "schemas", "services"],
      telemetry: ["contract", "schemas", "services"],
      health: ["schemas"],
      traffic: ["contract", "health", "schemas", "services"],
      network: ["contract", "schemas", "services", "traffic"],
      deployments: ["contract", "health", "schemas", "services", "traffic"],
      summary: ["contract", "deployments", "health", "schemas", "services", "traffic"],
      diagnosis: ["contract", "databases", "schemas", "services", "traffic"],
      incidents: ["contract", "diagnosis", "health", "network", "schemas", "services", "summary", "traffic"],
      databases: ["contract", "schemas", "services"],
      status: ["agents", "contract", "health", "schemas", "summary", "traffic"],
    },
  },
  mcp: { rooms: ["base", "proto", "tools"], packages: ["@modelcontextprotocol/server", "zod"] },
  agent: {
    rooms: [...daemonBasics, "bpf", "databases", "host", "traffic", "profile", "exec", "otlp", "tools"],
    packages: rpc,
    folders: {
      audit: [],
      commands: [],
      managed: [],
      databases: ["audit", "managed"],
      otlp: [],
      capture: ["audit"],
      naming: ["managed"],
      connections: ["naming"],
      discovery: ["connections", "managed", "naming"],
      host: ["discovery"],
      traffic: ["capture", "connections", "naming"],
      profile: ["traffic"],
      runtime: ["naming"],
      link: ["audit", "capture", "commands", "databases", "runtime"],
    },
  },
  colony: {
    rooms: [...daemonBasics, "otlp", "tools", "mcp"],
    packages: rpc,
    folders: {
      core: [],
      databases: ["registry"],
      deployments: [],
      diagnosis: [],
      health: [],
      incidents: [],
      inbox: [],
      registry: ["core"],
      pull: ["core", "registry"],
      discovery: ["core"],
      identity: ["discovery"],
      audit: ["registry"],
      commands: ["audit", "registry"],
      queries: ["audit", "commands", "databases", "deployments", "diagnosis", "discovery", "identity", "incidents", "registry"],
      http: ["commands", "core", "registry"],
    },
  },
  cli: {
    rooms: ["base", "proto", "model", "config", "tools", "mcp", "transport"],
    packages: ["commander", "yaml"],
    folders: {
      output: [],
      run: ["output"],
      completion: ["run"],
      replay: ["output"],
      commands: ["completion", "output", "replay", "run"],
    },
  },
  main: {
    rooms: [
      "base",
      "proto",
      "model",
      "diagnosis",
      "config",
      "redact",
      "code",
      "bpf",
      "host",
      "traffic",
      "profile",
      "exec",
      "store",
      "transport",
      "otlp",
      "tools",
      "mcp",
      "agent",
      "colony",
      "cli",
    ],
    packages: [],
    folders: { daemon: [], doctor: ["daemon"] },
  },
};

/** Rooms without an index.ts: their files are imported one by one. */
const openRooms = new Set(["base", "proto", "model"]);
/** Rooms whose sub-folders have an index.ts each. */
const roomsOfRooms = new Set(["store"]);
/** The entry point of all `coral` commands, which is loaded before the command is known. */
const startUp = { entry: "src/main/coral.ts", rooms: new Set(["base", "cli", "main", "model"]), packages: new Set(["commander"]) };
/**
 * Folders that may open sockets: `transport`; `otlp` for its protocol; `databases`; `host` for the container runtime of its machine; `main`, which checks
 * whether a port is free.
 */
const networkModules = new Set(["net", "tls", "http", "https", "http2", "dgram"]);
const networkFolders = ["src/transport/", "src/otlp/servers/", "src/databases/wire/", "src/host/runtime/", "src/main/"];
const testPackages = new Set(["vitest", "esbuild", "@modelcontextprotocol/client", "@grpc/grpc-js"]);
const maxLines = 800;
/** Source files in one folder, without tests and fixtures. */
const maxFiles = 25;

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

/** Every module that a TypeScript file imports, in any form. Comments are ignored. */
export function findImports(text: string): ImportFound[] {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^[ \t]*\/\/.*$/gm, "");
  const found: ImportFound[] = [];
  for (const [, type, specifier = ""] of code.matchAll(staticImport)) found.push({ specifier, kind: type ? "type" : "static" });
  for (const [, type, specifier = ""] of code.matchAll(dynamicImport)) found.push({ specifier, kind: type ? "type" : "lazy" });
  for (const [, specifier = ""] of code.matchAll(requireCall)) found.push({ specifier, kind: "lazy" });
  return found;
}

/** All violations in src/, one line each: `path: problem`. */
export function findViolations(files: readonly SourceFile[]): string[] {
  return [
    ...files.flatMap(fileViolations),
    ...folderSizeViolations(files),
    ...frontDoorViolations(files),
    ...startUpViolations(files),
    ...folderTableViolations(),
  ];
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
  // `{ z }` defeats tree shaking: it adds error messages in every language, half a megabyte, to each daemon.
  if (/^import\s+(?:type\s+)?\{[^}]*\}\s+from\s+"zod"/m.test(text))
    problems.push('zod is imported as a namespace: import * as z from "zod"');
  // Generated code is exempt: its length depends on the contract.
  if (!path.startsWith("src/proto/") && text.split("\n").length > maxLines + 1) problems.push(`longer than ${maxLines} lines`);
  // A path through an own descriptor does not read the host.
  if (!isTest && roomOf(path) !== "host" && /["'`]\/(?:proc|sys)\/(?!self\/fd\/)/.test(text))
    problems.push("only host reads /proc and /sys");
  return problems.map((problem) => `${path}: ${problem}`);
}

function importProblem(path: string, room: Room, specifier: string, isTest: boolean): string | undefined {
  if (specifier.startsWith(".")) return relativeProblem(path, room, specifier, isTest);
  const own = roomOf(path);
  const builtin = specifier.startsWith("node:") ? specifier.slice(5) : builtinModules.includes(specifier) ? specifier : undefined;
  if (builtin !== undefined) {
    if (isTest) return undefined;
    if (room.node === false) return `"${specifier}": ${own} must not depend on Node`;
    const forbidden = networkModules.has(builtin) && !networkFolders.some((folder) => path.startsWith(folder));
    return forbidden ? `"${specifier}": sockets are opened in ${networkFolders.join(", ")} only` : undefined;
  }
  const name = specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
  if (room.packages.includes(name) || (isTest && testPackages.has(name))) return undefined;
  return `"${name}": ${own} may not import this package`;
}

function relativeProblem(path: string, room: Room, specifier: string, isTest: boolean): string | undefined {
  const target = posix.join(posix.dirname(path), specifier);
  if (!target.startsWith("src/")) return `"${specifier}" leaves src/`;
  const other = roomOf(target);
  if (other === roomOf(path)) return isTest ? undefined : folderProblem(path, room, specifier, target);
  if (!room.rooms.includes(other)) return `"${specifier}": ${roomOf(path)} may not import ${other}`;
  if (openRooms.has(other) || isFrontDoor(target)) return undefined;
  return `"${specifier}": other rooms import ${frontDoorOf(target)} only`;
}

function frontDoorOf(path: string): string {
  const [src, room = "", folder = ""] = path.split("/");
  return roomsOfRooms.has(room) ? `${src}/${room}/${folder}/index.ts` : `${src}/${room}/index.ts`;
}

function isFrontDoor(path: string): boolean {
  return path === frontDoorOf(path);
}

/** The sub-folder of its room that a file is in; undefined for the room's own files. */
function folderOf(path: string): string | undefined {
  const parts = path.split("/");
  return parts.length > 3 ? parts[2] : undefined;
}

/** An import within a room, against the room's table of sub-folders. */
function folderProblem(path: string, room: Room, specifier: string, target: string): string | undefined {
  const from = folderOf(path);
  const to = folderOf(target);
  if (from === to || from === undefined) return undefined;
  const own = roomOf(path);
  const allowed = room.folders?.[from];
  if (allowed === undefined) return `sub-folder "${from}" is not in the table of ${own}`;
  if (to === undefined) return `"${specifier}": ${own}/${from} may not import the room's own files`;
  return allowed.includes(to) ? undefined : `"${specifier}": ${own}/${from} may not import ${own}/${to}`;
}

function folderSizeViolations(files: readonly SourceFile[]): string[] {
  const counts = new Map<string, number>();
  for (const { path } of files) {
    if (/\.(?:test|fixture)\.ts$/.test(path) || path.startsWith("src/proto/")) continue;
    const folder = posix.dirname(path);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts]
    .filter(([, count]) => count > maxFiles)
    .map(([folder, count]) => `${folder}: ${count} source files, more than ${maxFiles}`);
}

/** Checks the table itself: sub-folders must not import each other in a circle. */
function folderTableViolations(): string[] {
  return Object.entries(rooms).flatMap(([room, { folders = {} }]) =>
    Object.keys(folders).flatMap((folder) => {
      const reached = new Set<string>();
      const queue = [...(folders[folder] ?? [])];
      for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
        if (reached.has(next)) continue;
        reached.add(next);
        queue.push(...(folders[next] ?? []));
      }
      return reached.has(folder) ? [`src/${room}/${folder}: its sub-folders import each other in a circle`] : [];
    }),
  );
}

function frontDoorViolations(files: readonly SourceFile[]): string[] {
  const doors = new Set(
    files
      .filter(({ path }) => !openRooms.has(roomOf(path)) && roomOf(path) !== "main" && rooms[roomOf(path)] !== undefined)
      .filter(({ path }) => !roomsOfRooms.has(roomOf(path)) || folderOf(path) !== undefined)
      .map(({ path }) => frontDoorOf(path)),
  );
  return [...doors].flatMap((door) => {
    const index = files.find(({ path }) => path === door);
    if (index === undefined) return [`${posix.dirname(door)}: index.ts is missing`];
    return /^\/\*\*(?:(?!\*\/)[\s\S])*@module(?:(?!\*\/)[\s\S])*\*\//.test(index.text)
      ? []
      : [`${index.path}: does not start with a @module comment`];
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
