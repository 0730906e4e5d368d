import { existsSync, mkdirSync, renameSync } from "node:fs";
import { basename, join } from "node:path";
import { mustRun, root, which } from "./run.mjs";
import { filesBelow, hashOf, readStamp, writeStamp } from "./stamps.mjs";

const sourceDirectory = "probes";
const outputDirectory = "dist/probes";
const stamp = `${outputDirectory}/.stamp`;
/** -g: libbpf needs the type information; -Wpadded: a struct shared with TypeScript must not have holes; -I: includes name the folder. */
const flags = ["-O2", "-g", "-target", "bpf", "-Wall", "-Wextra", "-Wpadded", "-Werror", "-mcpu=v3", `-I${sourceDirectory}`];

/** @type {Partial<Record<string, string>>} */
const architectureFlags = { x64: "-D__TARGET_ARCH_x86", arm64: "-D__TARGET_ARCH_arm64" };

/** @returns {string | undefined} path of clang: $CLANG, or the first one in PATH */
export function findClang() {
  const wanted = process.env["CLANG"];
  if (wanted) return which(wanted) ?? (existsSync(wanted) ? wanted : undefined);
  for (const name of ["clang", ...Array.from({ length: 12 }, (_, index) => `clang-${22 - index}`)]) {
    const path = which(name);
    if (path !== undefined) return path;
  }
  return undefined;
}

function inputHash() {
  return hashOf(
    filesBelow(sourceDirectory, (file) => /\.[ch]$/.test(file)),
    [...flags, process.arch],
  );
}

/** @returns {boolean} */
export function areObjectsBuilt() {
  return readStamp(stamp) === inputHash();
}

/**
 * Compiles every *.bpf.c below probes/ into dist/probes/. CO-RE: the objects fit every kernel with BTF, and building needs clang only.
 * @returns {Promise<string | undefined>} why the programs cannot be built, with the fix
 */
export async function buildObjects() {
  const clang = findClang();
  if (clang === undefined)
    return 'eBPF programs are not built: clang is missing; install it (apt-get install clang), then run "npm run setup"';
  const define = architectureFlags[process.arch];
  if (define === undefined) return `eBPF programs are not built: processor "${process.arch}" is not supported`;
  const hash = inputHash();
  mkdirSync(join(root, outputDirectory), { recursive: true });
  for (const source of filesBelow(sourceDirectory, (file) => file.endsWith(".bpf.c"))) {
    const object = join(root, outputDirectory, basename(source).replace(/\.c$/, ".o"));
    // A path relative to the checkout, so that the debug information does not carry the name of this machine's directories.
    const args = [...flags, define, `-fdebug-prefix-map=${root}=.`, "-c", source, "-o", `${object}.new`];
    await mustRun(clang, args, `Cannot compile ${source} with ${clang}; it needs clang 12 or newer`);
    renameSync(`${object}.new`, object);
  }
  writeStamp(stamp, hash);
  return undefined;
}
