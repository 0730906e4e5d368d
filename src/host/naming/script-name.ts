/** What an interpreter runs. `node`, `python` and `java` are never a service; the script, module or archive they were given is. */

import { basename } from "node:path";
import { wordSet } from "../files/kernel-text.ts";
import { isGenericName, nameOfDirectory, nameOfFile } from "./path-name.ts";
import { wellKnownClassOf } from "./well-known-programs.ts";

interface Interpreter {
  /** Options whose value is the next argument. */
  valued: readonly string[];
  /** Code on the command line: there is no script. */
  inline: readonly string[];
  /** Words between the interpreter and the script, as in `deno run x.ts`. */
  commands?: readonly string[];
  /** Options whose value is the script. */
  script?: readonly string[];
  /** Options whose value is a module or main class. */
  module?: readonly string[];
  /** The script is a class name with dots, not a path. */
  runsClasses?: boolean;
  /** Without a script it serves its working directory, as `php -S` does. */
  servesDirectory?: readonly string[];
}

const node: Interpreter = {
  valued: [
    "-r",
    "--require",
    "--import",
    "--loader",
    "--experimental-loader",
    "-C",
    "--conditions",
    "--env-file",
    "--title",
    "--input-type",
    "--stack-trace-limit",
  ],
  inline: ["-e", "--eval", "-p", "--print", "-pe"],
};
const shell: Interpreter = { valued: ["-o", "-O", "--rcfile", "--init-file"], inline: ["-c"] };
const interpreters: Record<string, Interpreter> = {
  node,
  nodejs: node,
  bun: { valued: ["-r", "--preload", "-c", "--config", "--cwd"], inline: ["-e", "--eval", "-p"], commands: ["run", "x"] },
  deno: { valued: ["-c", "--config", "--import-map", "--lock"], inline: ["eval"], commands: ["run", "serve", "task"] },
  python: { valued: ["-W", "-X"], inline: ["-c"], module: ["-m"] },
  pypy: { valued: ["-W", "-X"], inline: ["-c"], module: ["-m"] },
  ruby: { valued: ["-I", "-r", "-C", "-E"], inline: ["-e"], script: ["-S"] },
  perl: { valued: ["-I"], inline: ["-e", "-E"] },
  php: { valued: ["-c", "-d", "-z"], inline: ["-r"], script: ["-f"], servesDirectory: ["-S"] },
  java: {
    valued: [
      "-cp",
      "-classpath",
      "--class-path",
      "-p",
      "--module-path",
      "--add-modules",
      "--add-opens",
      "--add-exports",
      "--add-reads",
      "--upgrade-module-path",
    ],
    inline: [],
    script: ["-jar"],
    module: ["-m", "--module"],
    runsClasses: true,
  },
  dotnet: {
    valued: ["--fx-version", "--roll-forward", "--depsfile", "--runtimeconfig", "--additionalprobingpath", "--additional-deps"],
    inline: [],
    script: ["--project"],
    commands: ["exec", "run", "watch"],
  },
  mono: { valued: ["--config"], inline: [] },
  lua: { valued: ["-l"], inline: ["-e"] },
  luajit: { valued: ["-l", "-j", "-O"], inline: ["-e"] },
  Rscript: { valued: [], inline: ["-e"] },
  bash: shell,
  sh: shell,
  dash: shell,
  zsh: shell,
  ksh: shell,
};

/** Scripts that run another script: the next argument. */
const runners = wordSet(`
  tsx ts-node ts-node-dev ts-node-esm nodemon babel-node vite-node bundle pm2-runtime dumb-init tini newrelic-admin ddtrace-run
  opentelemetry-instrument
`);
/** Servers that many services use. They are named after what they serve: an application spec, or the directory they were started in. */
const launchers = wordSet(`
  gunicorn uvicorn hypercorn daphne granian waitress-serve waitress flask celery django-admin streamlit fastapi puma unicorn
  rackup rails thin passenger artisan npm npx yarn pnpm corepack next next-server nuxt nuxi vite astro remix-serve
  react-scripts ng strapi nest gatsby serve http-server http.server sidekiq resque delayed_job rq huey dramatiq
`);
/** Programs whose web server and workers are separate services, although they share the application. */
const workerRoles: Readonly<Record<string, string>> = {
  celery: "worker",
  sidekiq: "sidekiq",
  resque: "resque",
  delayed_job: "jobs",
  rq: "worker",
  huey: "worker",
  dramatiq: "worker",
};

/** `node` for `/usr/bin/node`, `python` for `python3.11`; null for anything that is not an interpreter. */
export function interpreterOf(executable: string): string | null {
  const name = basename(executable).replace(/(?:-?\d+(?:\.\d+)*)?(?:\.exe)?$/, "");
  return Object.hasOwn(interpreters, name) ? name : null;
}

type Found = { kind: "script" | "module"; value: string; rest: readonly string[] } | { kind: "directory" } | { kind: "none" };

function findScript(interpreter: Interpreter, args: readonly string[]): Found {
  const has = (list: readonly string[] | undefined, arg: string): boolean => list?.includes(arg) ?? false;
  let servesDirectory = false;
  for (let index = 1; index < args.length; index++) {
    const arg = args[index] ?? "";
    const next = args[index + 1];
    if (has(interpreter.inline, arg)) return { kind: "none" };
    if (has(interpreter.servesDirectory, arg)) {
      servesDirectory = true;
      index++;
    } else if (has(interpreter.script, arg) || has(interpreter.module, arg)) {
      if (!next) return { kind: "none" };
      return { kind: has(interpreter.module, arg) ? "module" : "script", value: next, rest: args.slice(index + 2) };
    } else if (has(interpreter.valued, arg)) index++;
    // Java reads more arguments from an @file.
    else if (arg.startsWith("-") || arg === "" || (interpreter.runsClasses && arg.startsWith("@"))) continue;
    else if (has(interpreter.commands, arg)) continue;
    else if (!servesDirectory) {
      // Java runs single source files, too.
      const isClass = interpreter.runsClasses === true && !arg.endsWith(".java");
      return { kind: isClass ? "module" : "script", value: arg, rest: args.slice(index + 1) };
    }
  }
  return { kind: servesDirectory ? "directory" : "none" };
}

/** `shop` of `shop.wsgi:application`, of `--app shop` and of `-A shop`. Addresses such as `0.0.0.0:8000` look similar and are excluded. */
function applicationOf(args: readonly string[]): string | null {
  for (const [index, arg] of args.entries()) {
    const spec = /^([A-Za-z_][\w.]*):[A-Za-z_][\w.]*(?:\(.*\))?$/.exec(arg)?.[1] ?? /^--app=([\w.]+)/.exec(arg)?.[1];
    const named = arg === "--app" || arg === "-A" ? args[index + 1] : undefined;
    const first = (spec ?? named)?.split(/[.:]/).find((part) => /^\w+$/.test(part) && !isGenericName(part));
    if (first) return first;
  }
  return null;
}

/** `shop-api` of `shop-api-1.4.2-SNAPSHOT.jar`: a new version is not a new service. */
function withoutVersion(name: string): string {
  return name.replace(/[-_.]v?\d+(?:\.\d+)*(?:[-.](?:SNAPSHOT|RELEASE|FINAL|all|boot|exec|[a-z]+\.?\d*))*$/i, "") || name;
}

/** The last specific part of a class or module: `ShopApplication` of `com.acme.ShopApplication`, `kafka` of `kafka.Main`. */
function nameOfModule(module: string): string {
  const known = wellKnownClassOf(module);
  if (known !== null) return known;
  const parts = (module.split("/").at(-1) ?? module).split(".").filter(Boolean);
  return parts.findLast((part) => !isGenericName(part)) ?? module;
}

/** `shop-worker` of `celery -A shop worker`, `shop-beat` of its scheduler. */
function withRole(launcher: string, application: string | null, rest: readonly string[]): string | null {
  const role = workerRoles[launcher];
  if (application === null || role === undefined) return application;
  const command = launcher === "celery" ? rest.find((arg) => ["worker", "beat", "flower", "multi"].includes(arg)) : undefined;
  return `${application}-${command ?? role}`;
}

/** Titles that programs give themselves: `puma 6.4 (tcp://…) [shop]`, `gunicorn: master [shop.wsgi:app]`, `shop-api`. */
function nameOfTitle(title: string, directory: string | null): string | null {
  // `sidekiq 7.1.0 shop [0 of 10 busy]`.
  const sidekiq = /^sidekiq \S+ (\S+) \[/.exec(title)?.[1];
  if (sidekiq !== undefined) return `${sidekiq}-sidekiq`;
  const bracket = /\[([^\]]+)\]\s*$/.exec(title)?.[1];
  const application =
    bracket === undefined ? null : (applicationOf([bracket]) ?? (/^[\w.-]+$/.test(bracket) && !isGenericName(bracket) ? bracket : null));
  if (application) return application;
  const first = /^[\w.@-]+/.exec(title)?.[0];
  if (!first) return null;
  return launchers.has(first) ? ((directory && nameOfDirectory(directory)) ?? first) : first;
}

/** `next` of `/srv/shop/node_modules/.bin/next`, `@scope/x` of `node_modules/@scope/x/cli.js`. */
export function packageOf(path: string): string | null {
  const start = path.lastIndexOf("node_modules/");
  return start < 0 ? null : (/^node_modules\/(?:\.bin\/)?((?:@[^/]+\/)?[^/]+)/.exec(path.slice(start))?.[1] ?? null);
}

function nameOfFound(found: Extract<Found, { value: string }>, directory: string | null): string | null {
  const { kind, value, rest } = found;
  const packageName = packageOf(value);
  // With its extension: `bundle.js` is an output of webpack, `bundle` is Ruby's.
  const base = packageName ?? (kind === "module" ? value : basename(value));
  if (runners.has(base)) {
    const script = rest.find((arg) => !arg.startsWith("-") && !["watch", "exec", "run"].includes(arg));
    return script ? nameOfFound({ kind: "script", value: script, rest: rest.slice(rest.indexOf(script) + 1) }, directory) : base;
  }
  // A file server is not named after the directory that it serves.
  if (base === "http.server") return base;
  if (launchers.has(base) || base.startsWith("org.springframework.boot.loader.")) {
    return withRole(base, applicationOf(rest) ?? (directory ? nameOfDirectory(directory) : null), rest) ?? base;
  }
  if (packageName) return packageName;
  return kind === "module" ? nameOfModule(value) : withoutVersion(nameOfFile(value, directory));
}

/** Enough for the options of a Java server; a hostile process may have more. */
const maxArguments = 512;
const maxArgumentLength = 4096;

/** Name of what `interpreter` (from interpreterOf) runs with these arguments (argv[0] first); null if no script is visible. */
export function scriptNameOf(interpreter: string, line: readonly string[], directory: string | null): string | null {
  const table = interpreters[interpreter];
  const args = line.slice(0, maxArguments).map((arg) => (arg.length > maxArgumentLength ? arg.slice(0, maxArgumentLength) : arg));
  const title = args[0] ?? "";
  if (!table || title === "") return null;
  // Process managers write the whole command into argv[0].
  const words = args.length === 1 ? title.split(" ") : args;
  if (args.length === 1 && interpreterOf(words[0] ?? "") === null) return nameOfTitle(title, directory);
  const found = findScript(table, words);
  if (found.kind === "none") return null;
  if (found.kind === "directory") return directory ? nameOfDirectory(directory) : null;
  return nameOfFound(found, directory);
}

export const isRunner = (name: string): boolean => runners.has(name);
export const isLauncher = (name: string): boolean => launchers.has(name) || name.startsWith("org.springframework.boot.loader.");

/** What `interpreter` (from interpreterOf) was given: a script or module, code, a directory to serve, or only a title that the program set itself. */
export type Interpreted =
  | { kind: "script" | "module" | "inline"; value: string; rest: readonly string[] }
  | { kind: "title"; value: string }
  | { kind: "directory" | "none" };

export function findInterpreted(interpreter: string, args: readonly string[]): Interpreted {
  const table = interpreters[interpreter];
  const title = args[0] ?? "";
  if (!table || title === "") return { kind: "none" };
  const words = args.length === 1 ? title.split(" ") : args;
  if (args.length === 1 && interpreterOf(words[0] ?? "") === null) return { kind: "title", value: title };
  const found = findScript(table, words);
  if (found.kind !== "none") return found;
  const inline = words.findIndex((word, index) => index > 0 && table.inline.includes(word));
  const code = inline < 0 ? undefined : words[inline + 1];
  return code === undefined ? { kind: "none" } : { kind: "inline", value: code, rest: words.slice(inline + 2) };
}
