/** Finds the files that make up an interpreted program: its entry script, the manifest with its version, its lockfile. */

import { basename, posix } from "node:path";
import { wordSet } from "../files/kernel-text.ts";
import { findInterpreted, isLauncher, isRunner, packageOf } from "../naming/script-name.ts";

export interface ProgramFile {
  /** As the process sees it. */
  path: string;
  /** Only the version of a manifest is used: its other fields may change without a new build. */
  use: "content" | "version";
}

export interface InterpreterCall {
  interpreter: string;
  /** argv; read but never stored. */
  arguments: readonly string[];
  workingDirectory: string | null;
  /** Root of the process's file system: `/proc/42/root`, or empty. */
  prefix: string;
}

interface Files {
  isFile(path: string): boolean;
  list(path: string): readonly string[];
}

const manifests = wordSet("package.json deno.json deno.jsonc pyproject.toml setup.cfg composer.json Gemfile Cargo.toml");
const lockfiles = wordSet(`
  package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock poetry.lock uv.lock pdm.lock Pipfile.lock
  requirements.txt Gemfile.lock composer.lock Cargo.lock
`);
/** Directories above a script that are searched. */
const maxLevels = 6;
/** Archives of a class path. */
const maxArchives = 64;
const scriptEndings = ["", ".js", ".mjs", ".cjs", ".ts", "/index.js", "/index.mjs", "/index.ts", "/__main__.py"];
const maxArguments = 512;

/** The entry script comes first, if there is one. Null when the program cannot be found: code on the command line, modules that are installed. */
export function findProgramFiles(call: InterpreterCall, files: Files): readonly ProgramFile[] | null {
  const search = new ProgramSearch(call, files);
  const entries = search.entries();
  if (entries === null) return null;
  const [first] = entries;
  // A program without a file, such as `npm start`, is identified by the manifest in its own directory only.
  const surroundings =
    first === undefined ? search.around(call.workingDirectory ?? "/", 1) : search.around(posix.dirname(first), maxLevels);
  if (first === undefined && surroundings.length === 0) return null;
  return [...entries.map((path): ProgramFile => ({ path, use: "content" })), ...surroundings];
}

class ProgramSearch {
  readonly #call: InterpreterCall;
  readonly #files: Files;

  constructor(call: InterpreterCall, files: Files) {
    this.#call = call;
    this.#files = files;
  }

  /** Empty when only a directory is known, as for `npm start`. */
  entries(): readonly string[] | null {
    const args = this.#call.arguments.slice(0, maxArguments);
    const found = findInterpreted(this.#call.interpreter, args);
    switch (found.kind) {
      case "script":
        return this.#ofScript(found.value, found.rest);
      case "module":
        return this.#ofModule(found.value, found.rest, args);
      case "directory":
        return this.#first("index.php", "public/index.php");
      case "title":
        return this.#ofTitle(found.value);
      default:
        return null;
    }
  }

  /** The nearest manifest, and the lockfile next to it or above it. */
  around(directory: string, levels: number): ProgramFile[] {
    const found: ProgramFile[] = [];
    let isManifestFound = false;
    let place = directory;
    for (let level = 0; level < levels; level++) {
      // A manifest in `/tmp` or `/home` does not belong to programs below it.
      if (level > 0 && place.split("/").filter(Boolean).length < 2) break;
      const manifest: string | undefined = isManifestFound ? undefined : this.#in(place, manifests);
      if (manifest !== undefined) found.push({ path: manifest, use: "version" });
      isManifestFound ||= manifest !== undefined;
      const lock = this.#in(place, lockfiles);
      if (lock !== undefined) {
        found.push({ path: lock, use: "content" });
        break;
      }
      place = posix.dirname(place);
    }
    return found;
  }

  #in(directory: string, names: ReadonlySet<string>): string | undefined {
    return [...names].map((name) => posix.join(directory, name)).find((path) => this.#isFile(path));
  }

  #isFile(path: string): boolean {
    return this.#files.isFile(this.#call.prefix + path);
  }

  #absolute(path: string): string | null {
    const { workingDirectory } = this.#call;
    if (path.startsWith("/")) return posix.normalize(path);
    return workingDirectory === null ? null : posix.join(workingDirectory, path);
  }

  #first(...candidates: readonly string[]): [string] | null {
    const path = candidates
      .map((candidate) => this.#absolute(candidate))
      .find((candidate) => candidate !== null && this.#isFile(candidate));
    return path ? [path] : null;
  }

  #ofScript(value: string, rest: readonly string[]): readonly string[] | null {
    const base = packageOf(value) ?? basename(value);
    if (isRunner(base)) {
      const at = rest.findIndex((arg) => !arg.startsWith("-") && !["watch", "exec", "run"].includes(arg));
      const script = rest[at];
      return script === undefined ? null : this.#ofScript(script, rest.slice(at + 1));
    }
    if (isLauncher(base)) return this.#ofLauncher(rest);
    // A launcher under another title, about to exec the program.
    if (base === "pm2") return null;
    return this.#first(...scriptEndings.map((ending) => value + ending));
  }

  /** `shop.wsgi:app` and `-A shop` name a module; without one, the directory is used. */
  #ofLauncher(rest: readonly string[]): readonly string[] {
    const spec = rest.map((arg) => /^(?:--app=)?([A-Za-z_][\w.]*):[A-Za-z_][\w.]*(?:\(.*\))?$/.exec(arg)?.[1]).find((name) => name);
    const flag = rest.findIndex((arg) => arg === "--app" || arg === "-A");
    const name = spec ?? (flag < 0 ? undefined : rest[flag + 1]);
    return name === undefined ? [] : (this.#first(...moduleFiles(name)) ?? []);
  }

  #ofModule(value: string, rest: readonly string[], args: readonly string[]): readonly string[] | null {
    if (this.#call.interpreter === "java") return this.#ofClassPath(value, args);
    // The directory from which the standard library's server serves files is not its program.
    if (value === "http.server") return null;
    return isLauncher(value) ? this.#ofLauncher(rest) : this.#first(...moduleFiles(value));
  }

  #ofTitle(title: string): readonly string[] | null {
    const first = /^[\w.@-]+/.exec(title)?.[0] ?? "";
    const bracket = /\[([^\]\s]+)\]\s*$/.exec(title)?.[1];
    return isLauncher(first) ? this.#ofLauncher(bracket === undefined ? [] : [bracket]) : null;
  }

  /** The archives of a class path, and the main class in its directories. */
  #ofClassPath(mainClass: string, args: readonly string[]): readonly string[] | null {
    const at = args.findIndex((arg) => ["-cp", "-classpath", "--class-path"].includes(arg));
    const paths = at < 0 ? "." : (args[at + 1] ?? ".");
    const found = paths.split(":").flatMap((part) => {
      const path = this.#absolute(part === "" ? "." : part);
      if (path === null) return [];
      if (path.endsWith("/*")) return this.#archivesIn(path.slice(0, -2));
      return [path, `${posix.join(path, mainClass.replaceAll(".", "/"))}.class`].filter((one) => this.#isFile(one)).slice(0, 1);
    });
    return found.length === 0 ? null : found.slice(0, maxArchives);
  }

  #archivesIn(directory: string): string[] {
    const names = this.#files.list(this.#call.prefix + directory).filter((name) => /\.jar$/i.test(name));
    return names
      .sort()
      .map((name) => posix.join(directory, name))
      .filter((path) => this.#isFile(path));
  }
}

function moduleFiles(module: string): string[] {
  const path = module.replaceAll(".", "/");
  return [`${path}.py`, `${path}/__main__.py`, `${path}/__init__.py`, `src/${path}.py`, `src/${path}/__main__.py`];
}
