/** A small disk (a loop device) that can be slowed down: the block layer's control group limits its writes per second. */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Limits write operations per second of a block device (cgroup v1). */
const throttleFile = "/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device";
/** Size of the file system image. */
const diskBytes = 32 * 1024 ** 2;

/** A loop device with its own file system, so that only the program under test is throttled. */
export class SlowDisk implements Disposable {
  readonly path: string;
  readonly device: string;
  readonly #folder: string;
  readonly #number: string;
  #isGone = false;

  private constructor(folder: string, path: string, device: string, number: string) {
    this.#folder = folder;
    this.path = path;
    this.device = device;
    this.#number = number;
  }

  /** Null if the host has no loop devices or cannot limit their writes. */
  static make(): SlowDisk | null {
    if (!existsSync(throttleFile) || !existsSync("/dev/loop-control")) return null;
    const folder = mkdtempSync(join(tmpdir(), "coral-disk-"));
    const [image, path] = [join(folder, "image"), join(folder, "disk")];
    let device = "";
    try {
      writeFileSync(image, "");
      truncateSync(image, diskBytes);
      device = run("losetup", "-f", "--show", image);
      run("mkfs.ext2", "-q", device);
      mkdirSync(path);
      run("mount", device, path);
      const disk = new SlowDisk(folder, path, device, run("lsblk", "-n", "-o", "MAJ:MIN", device));
      process.once("exit", () => disk[Symbol.dispose]());
      return disk;
    } catch {
      if (device !== "") run("losetup", "-d", device);
      rmSync(folder, { recursive: true, force: true });
      return null;
    }
  }

  /** Null: no limit. */
  limit(writesPerSecond: number | null): void {
    writeFileSync(throttleFile, `${this.#number} ${writesPerSecond ?? 0}`);
  }

  [Symbol.dispose](): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.limit(null);
    // Lazy unmount: a program that was just killed may still hold its file.
    run("umount", "-l", this.path);
    run("losetup", "-d", this.device);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

const run = (file: string, ...args: string[]): string =>
  execFileSync(file, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
