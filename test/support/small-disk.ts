import { execFileSync } from "node:child_process";
import { closeSync, fsyncSync, mkdirSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A mounted file system that is small enough to fill. */
export class SmallDisk implements AsyncDisposable {
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  /** Mounts over `path`, which is created if missing. */
  static mount(path: string, sizeMiB: number): SmallDisk {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${sizeMiB}m,mode=700`, "tmpfs", path]);
    return new SmallDisk(path);
  }

  /** Fills the disk to the last byte. */
  fill(): void {
    const descriptor = openSync(join(this.path, "filler"), "a");
    try {
      for (let chunk = Buffer.alloc(1024 * 1024); chunk.length > 0; ) {
        try {
          if (writeSync(descriptor, chunk) < chunk.length) chunk = chunk.subarray(0, chunk.length >> 1);
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
          chunk = chunk.subarray(0, chunk.length >> 1);
        }
      }
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
  }

  free(): void {
    rmSync(join(this.path, "filler"), { force: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    // Lazy unmount: a daemon that is still shutting down must not block it.
    execFileSync("umount", ["--lazy", this.path]);
    return Promise.resolve();
  }
}

/** The reason why this host cannot mount; undefined when it can. */
export function smallDiskSkipReason(): string | undefined {
  if (process.getuid?.() !== 0) return "needs root, to mount a small file system";
  const path = mkdtempSync(join(tmpdir(), "coral-mount-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", path], { stdio: "ignore" });
    execFileSync("umount", [path], { stdio: "ignore" });
    return undefined;
  } catch {
    return "root may not mount here (a container without CAP_SYS_ADMIN)";
  } finally {
    rmdirSync(path);
  }
}
