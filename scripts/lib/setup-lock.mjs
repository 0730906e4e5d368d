import { accessSync, constants, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SetupError, say } from "./report.mjs";
import { root } from "./run.mjs";

const waitLimitMs = 15 * 60_000;

/**
 * Runs work while holding the checkout's setup lock, so that two concurrent commands do not both install.
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
      `Cannot set up Coral: "${root}" is not writable (${String(error)}); run as its owner, or clone it to a writable directory`,
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
  for (let isReported = false; ; ) {
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
      throw new SetupError(`Cannot set up Coral: process ${holder} still holds the setup lock; end it or remove "${file}"`);
    if (!isReported) say(`waiting for another setup (process ${holder})`);
    isReported = true;
    await sleep(200);
  }
}

/** @param {string} file @returns {number | undefined} pid of the running process that holds the lock */
function holderOf(file) {
  try {
    const pid = Number(readFileSync(file, "utf8"));
    // An empty file belongs to a process between open and write.
    if (pid === 0) return pid;
    process.kill(pid, 0);
    return pid;
  } catch (error) {
    // EPERM: the process runs as another user. Any other error: the process or the file is gone.
    return error instanceof Error && "code" in error && error.code === "EPERM" ? -1 : undefined;
  }
}
