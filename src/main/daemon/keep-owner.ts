import { closeSync, constants, type FSWatcher, fchownSync, fstatSync, openSync, readdirSync, watch } from "node:fs";
import { join } from "node:path";
import type { Logger } from "../../base/log.ts";
import type { FileOwner } from "../../config/index.ts";

/**
 * Under sudo the database creates files as root, including a new write-ahead log after each checkpoint. This hands every file in the directory to the
 * user when it appears, and again on disposal. Dispose it after the database.
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
      log.warn("Cannot watch the data directory; its files stay owned by root until shutdown", { directory, error }),
    );
  } catch (error) {
    // The user's inotify watches may be exhausted; disposal still fixes the owner.
    log.warn("Cannot watch the data directory; its files stay owned by root until shutdown", { directory, error });
  }
  adoptAll();
  return {
    [Symbol.dispose]: () => {
      watcher?.close();
      adoptAll();
    },
  };
}

/** Only regular files of this process's user with one link: a planted link must not give away another file. */
function adopt(path: string, owner: FileOwner, log: Logger): void {
  let fd: number | undefined;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const found = fstatSync(fd);
    if (found.isFile() && found.nlink === 1 && found.uid === process.geteuid?.()) fchownSync(fd, owner.uid, owner.gid);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    // Already removed, or a symbolic link: skip it.
    if (code !== "ENOENT" && code !== "ELOOP") log.warn("Cannot change the owner of a file to the user who ran sudo", { path, error });
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}
