import { accessSync, constants, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SetupError, say } from "./report.mjs";
import { root } from "./run.mjs";

const waitLimitMs = 15 * 60_000;

/**
 * Runs work while holding the checkout's set-up lock, so that two commands started together do not both install.
 * @template T
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withSetupLock(work) {
  const directory = join(root, "build");
  const file = join(directory, "setup.lock");
  try {
    mkdirSync(directory, { recursive: true });
    accessSync(directory, constants.W_OK);
  } catch (error) {
    throw new SetupError(
      `Cannot set up Coral: "${root}" is not writable (${String(error)}); run as its owner, or clone it where you may write`,
    );
  }
  await acquire(file);
  const release = () => rmSync(file, { force: true });
  process.once("exit", release);
  try {
    return await work();
  } finally {
    process.off("exit", release);
    release();
  }
}

/** @param {string} file */
async function acquire(file) {
  const deadlineMs = Date.now() + waitLimitMs;
  for (let told = false; ; ) {
    try {
      writeFileSync(file, String(process.pid), { flag: "wx" });
      return;
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    }
    const holder = holderOf(file);
    if (holder === undefined) {
      rmSync(file, { force: true });
      continue;
    }
    if (Date.now() > deadlineMs)
      throw new SetupError(`Cannot set up Coral: process ${holder} has been doing it for too long; end it or remove "${file}"`);
    if (!told) say(`waiting for another set-up (process ${holder})`);
    told = true;
    await sleep(200);
  }
}

/** @param {string} file @returns {number | undefined} the living process that holds the lock */
function holderOf(file) {
  try {
    const pid = Number(readFileSync(file, "utf8"));
    // An empty file is a holder between open and write.
    if (pid === 0) return pid;
    process.kill(pid, 0);
    return pid;
  } catch (error) {
    // EPERM: it lives and belongs to someone else. Anything else: it is gone, or the file is.
    return error instanceof Error && "code" in error && error.code === "EPERM" ? -1 : undefined;
  }
}
