import { spawn, spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SetupError } from "./report.mjs";

/** The root directory of the checkout. */
export const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Runs a command in the checkout and collects its output. Never rejects: a command that cannot be started has code 127.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ env?: NodeJS.ProcessEnv, cwd?: string }} [options]
 * @returns {Promise<{ code: number, output: string }>}
 */
export function run(command, args, options = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: options.cwd ?? root,
      env: { ...process.env, PATH: programDirectories().join(delimiter), ...options.env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    /** @param {Buffer} chunk */
    const collect = (chunk) => {
      output += chunk.toString();
    };
    child.stdout.on("data", collect);
    child.stderr.on("data", collect);
    child.on("error", (error) => resolve({ code: 127, output: error.message }));
    child.on("close", (code, signal) => resolve({ code: code ?? 1, output: signal ? `${output}\nkilled by ${signal}` : output }));
  });
}

/**
 * Like run(), but a failing command throws a SetupError with its output and the advice.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {string} advice
 * @param {{ env?: NodeJS.ProcessEnv, cwd?: string }} [options]
 */
export async function mustRun(command, args, advice, options) {
  const { code, output } = await run(command, args, options);
  if (code !== 0) throw new SetupError(advice, output);
  return output;
}

/**
 * Runs a command with inherited stdio and returns its exit code.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {NodeJS.ProcessEnv} [more] environment
 * @returns {Promise<number>}
 */
export function runVisibly(command, args, more = {}) {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, ...more, PATH: programDirectories().join(delimiter) };
    const child = spawn(command, args, { cwd: root, env, stdio: "inherit" });
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 1));
  });
}

/**
 * The JavaScript file of a tool in node_modules, to run with this Node: without a shell, and on file systems mounted noexec.
 * @param {string} path below node_modules
 */
export function moduleFile(path) {
  return join(root, "node_modules", path);
}

/**
 * PATH plus directories that Debian leaves out of it for ordinary users: sbin with ip and mount, and the versioned directories of the Postgres servers.
 */
function programDirectories() {
  const postgres = "/usr/lib/postgresql";
  const versions = existsSync(postgres) ? readdirSync(postgres).sort((a, b) => Number(b) - Number(a)) : [];
  const known = (process.env["PATH"] ?? "").split(delimiter).filter((directory) => directory !== "");
  return [...new Set([...known, "/usr/sbin", "/sbin", ...versions.map((version) => `${postgres}/${version}/bin`)])];
}

/** @param {string} name @returns {string | undefined} the full path of an executable, by PATH */
export function which(name) {
  for (const directory of programDirectories()) {
    const path = join(directory, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // not in this directory
    }
  }
  return undefined;
}

/**
 * The argv prefix for a command that needs root: empty as root, `sudo -n` if sudo needs no password, otherwise undefined.
 * @returns {string[] | undefined}
 */
export function rootPrefix() {
  if (process.getuid?.() === 0) return [];
  const sudo = which("sudo");
  if (sudo === undefined) return undefined;
  return spawnSync(sudo, ["-n", "true"], { stdio: "ignore" }).status === 0 ? [sudo, "-n"] : undefined;
}
