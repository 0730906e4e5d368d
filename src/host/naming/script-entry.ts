/** What an interpreter runs, as part of a service's identity: unlike a name, it must distinguish programs. */

import { hash } from "node:crypto";
import { basename, posix } from "node:path";
import { isGenericName, nameOfFile } from "./path-name.ts";
import { findInterpreted, isLauncher, isRunner, packageOf } from "./script-name.ts";
import { stablePath } from "./stable-path.ts";

export interface ScriptEntry {
  /** Stable across releases and the same for a command line and the title that the program sets later. */
  key: string;
  /** The entry script; null for modules, process titles, application servers, and code on the command line. */
  path: string | null;
  /** Short, for the readable part of an id; null when only the directory names it. */
  name: string | null;
  /** For people: `worker.py`, `-m billing.worker`, `gunicorn shop.wsgi:app`. */
  text: string;
  /** What follows the script. */
  rest: readonly string[];
}

const maxArguments = 512;
const maxArgumentLength = 4096;
const roles = new Set(["worker", "beat", "flower", "multi"]);

/** Null if no script is visible. `line`: argv. */
export function scriptEntryOf(interpreter: string, line: readonly string[], directory: string | null): ScriptEntry | null {
  const args = line.slice(0, maxArguments).map((arg) => arg.slice(0, maxArgumentLength));
  const found = findInterpreted(interpreter, args);
  switch (found.kind) {
    case "title":
      return titleEntry(found.value);
    case "inline":
      return {
        key: `inline ${hash("sha256", codeOf(found.value), "hex").slice(0, 16)}`,
        path: null,
        name: null,
        text: "inline code",
        rest: found.rest,
      };
    case "script":
    case "module":
      return entryOf(found.kind, found.value, found.rest, directory);
    case "directory":
      return { key: "directory", path: null, name: null, text: "", rest: [] };
    case "none":
      return null;
  }
}

/** Python's worker processes differ in the numbers of their pipes only. */
function codeOf(code: string): string {
  return /^from multiprocessing\.\w+ import/.test(code) ? code.replace(/\d+/g, "") : code;
}

function entryOf(kind: "script" | "module", value: string, rest: readonly string[], directory: string | null): ScriptEntry {
  const packageName = packageOf(value);
  const base = packageName ?? (kind === "module" ? value : basename(value));
  if (isRunner(base)) {
    const at = rest.findIndex((arg) => !arg.startsWith("-") && !["watch", "exec", "run"].includes(arg));
    const script = rest[at];
    return script === undefined ? named(base, rest) : entryOf("script", script, rest.slice(at + 1), directory);
  }
  if (isLauncher(base)) return launcherEntry(base, rest);
  if (kind === "module") return { key: `module ${value}`, path: null, name: specificPart(value), text: value, rest };
  const path = stablePath(value.startsWith("/") || directory === null ? value : posix.join(directory, value));
  return { key: `script ${path}`, path, name: nameOfFile(path, directory), text: basename(value), rest };
}

/** `worker` of `billing.worker`, `shop` of `shop.wsgi`; null if every part is generic. */
function specificPart(module: string, from: "first" | "last" = "last"): string | null {
  const parts = module.split(/[./]/).filter((part) => part !== "" && !isGenericName(part));
  return (from === "first" ? parts[0] : parts.at(-1)) ?? null;
}

/** Identifies the launched program, not the launcher. */
function launcherEntry(launcher: string, rest: readonly string[]): ScriptEntry {
  const name = launcher === "next-server" ? "next" : launcher;
  const flag = rest.findIndex((arg) => arg === "--app" || arg === "-A");
  const spec =
    rest.find((arg) => /^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*(?:\(.*\))?$/.test(arg)) ?? rest.find((arg) => arg.startsWith("--app="))?.slice(6);
  const application = spec ?? (flag < 0 ? undefined : rest[flag + 1]);
  const role = rest.find((arg) => roles.has(arg));
  const own = application === undefined ? null : specificPart(application.replace(/:.*$/, ""), "first");
  const nameOfLaunched = own === null ? null : [own, role].filter(Boolean).join("-");
  const words = [name, application, role].filter((word) => word !== undefined);
  return { key: `launcher ${words.join(" ")}`, path: null, name: nameOfLaunched, text: words.join(" "), rest };
}

function named(name: string, rest: readonly string[]): ScriptEntry {
  return { key: `script ${name}`, path: null, name, text: name, rest };
}

/** `gunicorn: master [shop.wsgi:app]` is the same as `gunicorn shop.wsgi:app`; versions and counters in titles do not count. */
function titleEntry(title: string): ScriptEntry {
  const first = /^[\w.@-]+/.exec(title)?.[0] ?? "";
  const bracket = /\[([^\]\s]+)\]\s*$/.exec(title)?.[1];
  if (isLauncher(first)) return launcherEntry(first, bracket === undefined ? [] : [bracket]);
  return { key: `title ${first}`, path: null, name: first, text: first, rest: [] };
}
