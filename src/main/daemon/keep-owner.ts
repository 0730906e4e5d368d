import { closeSync, constants, type FSWatcher, fchownSync, fstatSync, openSync, readdirSync, watch } from "node:fs";
import { join } from "node:path";
import type { Logger } from "../../base/log.ts";
import type { FileOwner } from "../../config/index.ts";

/**
 * Under sudo the database makes its files as root, again and again: a new write-ahead log after each checkpoint. This gives every file in
 * the directory to the user as soon as it appears, and once more when it is closed. Close it after the database.
 */
export function keepOwner(directory: string, owner: FileOwner, log: Logger): Disposable {
  const adoptAll = (): void => {
    for (const name of readdirSync(directory)) adopt(join(directory, name), owner, log);
  };
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(directory, { persistent: false }, (_event, name) => {
      if (name !== null) adopt(join(directory, name), owner, log);
    });
    watcher.on("error", (error) =>
      log.warn("Cannot watch a data directory; its files are given to the user at the end", { directory, error }),
    );
  } catch (error) {
    // The user's inotify watches may be used up; the last look at the end still does it.
    log.warn("Cannot watch a data directory; its files are given to the user at the end", { directory, error });
  }
  adoptAll();
  return {
    [Symbol.dispose]: () => {
      watcher?.close();
      adoptAll();
    },
  };
}

/** Only plain files that are ours and have one name: a link that somebody put there must not give away the file behind it. */
function adopt(path: string, owner: FileOwner, log: Logger): void {
  let fd: number | undefined;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const found = fstatSync(fd);
    if (found.isFile() && found.nlink === 1 && found.uid === process.geteuid?.()) fchownSync(fd, owner.uid, owner.gid);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    // Gone already, or a link: neither is ours to give.
    if (code !== "ENOENT" && code !== "ELOOP") log.warn("Cannot give a file to the user who called sudo", { path, error });
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}
