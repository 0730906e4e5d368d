import { lchownSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { areObjectsBuilt, buildObjects, findClang } from "./bpf-objects.mjs";
import { bundle, isBundled } from "./bundle.mjs";
import { generateCode, isGeneratedCodeChecked } from "./generated-code.mjs";
import { install, isInstalled } from "./node-modules.mjs";
import { say, seconds, step, warn } from "./report.mjs";
import { root } from "./run.mjs";
import { withSetupLock } from "./setup-lock.mjs";
import { installPackages, missingCapabilities, missingPackages, mountTracefs } from "./system-packages.mjs";

/**
 * Installs system and npm packages and builds bundle and BPF objects, each only if it is missing or out of date.
 * @param {{ forTests: boolean, force?: boolean }} options
 */
export async function setup({ forTests, force = false }) {
  const startMs = performance.now();
  const degraded = await installPackages(missingPackages(forTests), force);
  const tracefs = await mountTracefs();
  if (tracefs !== undefined) degraded.push(tracefs);
  if (hasWork()) await withSetupLock(work);
  const capabilities = missingCapabilities();
  if (capabilities !== undefined) degraded.push(capabilities);
  for (const line of degraded) warn(line);
  say(`setup done (${seconds(performance.now() - startMs)})`);
}

function canBuildObjects() {
  return !areObjectsBuilt() && findClang() !== undefined;
}

function hasWork() {
  return !isInstalled() || !isGeneratedCodeChecked() || !isBundled() || canBuildObjects();
}

/** Checks again before each step: another setup may have done it while this one waited for the lock. */
async function work() {
  if (!isInstalled()) await step("npm packages", install);
  if (!isGeneratedCodeChecked()) await step("code from proto/", () => generateCode({ write: true }));
  if (!isBundled()) await step("bundle", bundle);
  if (canBuildObjects()) await step("eBPF programs", buildObjects);
  giveToOwner();
}

/** Gives the files that root built to the owner of the checkout, who must be able to rebuild them. */
function giveToOwner() {
  const { uid, gid } = statSync(root);
  if (process.getuid?.() !== 0 || uid === 0) return;
  for (const directory of ["node_modules", "build", "dist"]) {
    const absolute = join(root, directory);
    lchownSync(absolute, uid, gid);
    for (const entry of readdirSync(absolute, { recursive: true })) lchownSync(join(absolute, entry.toString()), uid, gid);
  }
}
