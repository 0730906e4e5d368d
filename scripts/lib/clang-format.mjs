import { mustRun, run, which } from "./run.mjs";
import { filesBelow } from "./stamps.mjs";

/** probes/.clang-format is written for this version; others break some lines differently. Debian 12 and Ubuntu 22.04 have it as "clang-format". */
const majorVersion = 14;
const programs = [`clang-format-${majorVersion}`, "clang-format"];

/** @returns {boolean} true for any version, so that setup does not reinstall it every time */
export function isClangFormatInstalled() {
  return programs.some((name) => which(name) !== undefined);
}

/** @returns {Promise<{ path: string } | { whyNot: string }>} */
async function findClangFormat() {
  /** @type {string[]} */
  const others = [];
  for (const name of programs) {
    const path = which(name);
    if (path === undefined) continue;
    const { output } = await run(path, ["--version"]);
    const major = /version (\d+)/.exec(output)?.[1] ?? "an unknown version";
    if (major === String(majorVersion)) return { path };
    others.push(major);
  }
  const found = others.length === 0 ? "is not installed; run: apt-get install clang-format" : `is needed, found ${others.join(", ")}`;
  return { whyNot: `clang-format ${majorVersion} ${found}` };
}

/** @returns {Promise<string | undefined>} why this machine cannot check the format of probes/ */
export async function whyNoClangFormat() {
  const found = await findClangFormat();
  return "whyNot" in found ? found.whyNot : undefined;
}

/**
 * Checks or writes the format of the kernel programs. Does nothing without the right clang-format.
 * @param {{ write: boolean }} options
 */
export async function formatProbes({ write }) {
  const found = await findClangFormat();
  if ("whyNot" in found) return;
  const sources = filesBelow("probes", (file) => /\.[ch]$/.test(file));
  const mode = write ? ["-i"] : ["--dry-run", "--Werror"];
  await mustRun(found.path, ["-style=file", ...mode, ...sources], "Files in probes/ are not formatted; run: npm run format");
}
