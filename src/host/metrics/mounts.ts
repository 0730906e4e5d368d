/** Space of mounted file systems. A dead NFS server must not block a sample or exhaust the thread pool of file calls. */

import { statfs } from "node:fs/promises";
import { printable } from "../../base/escape-text.ts";
import type { HostRoot } from "../files/host-root.ts";
import { toSafeInteger, wordSet } from "../files/kernel-text.ts";
import type { MountEntry } from "../files/mountinfo.ts";

export interface MountUsage {
  mount: string;
  device: string;
  fsType: string;
  sizeBytes: number;
  usedBytes: number;
  /** For users other than root. */
  availableBytes: number;
  inodesTotal: number;
  inodesUsed: number;
  readOnly: boolean;
}

export interface MountScan {
  mounts: MountUsage[];
  /** Mount points that did not respond in time, now or before, and those skipped because others used up the time. */
  unresponsive: string[];
  /** Mount points for which statfs(2) failed. */
  failed: number;
  /** File systems above the limit. */
  cut: number;
}

/** The result of statfs(2), as Node returns it. */
export interface FileSystemStats {
  bsize: number;
  blocks: number;
  bfree: number;
  bavail: number;
  files: number;
  ffree: number;
}

export interface MountReaderOptions {
  /** Per file system; default 500 ms. */
  timeoutMs?: number;
  /** Injectable, because no test can make a kernel call hang. */
  statFileSystem?: (path: string) => Promise<FileSystemStats>;
}

export interface MountReader {
  /** Takes at most about four timeouts in total. */
  scan(entries: readonly MountEntry[], signal?: AbortSignal): Promise<MountScan>;
}

const maxMounts = 64;
/** Node has four threads for file calls by default; a call to a dead NFS server may hold one until the machine restarts. */
const maxHanging = 2;

/** Not on a disk, or an image that is always full (squashfs and its like). */
const skippedTypes = wordSet(`
  proc sysfs devtmpfs devpts tmpfs ramfs cgroup cgroup2 mqueue hugetlbfs debugfs tracefs securityfs pstore bpf configfs fusectl
  efivarfs binfmt_misc autofs nsfs rpc_pipefs nfsd selinuxfs sockfs pipefs squashfs erofs iso9660 cramfs fuse.lxcfs
  fuse.gvfsd-fuse fuse.portal fuse.snapfuse fuse.fuse-overlayfs fuse.archivemount
`);
const networkTypes = /^(?:nfs|nfs4|cifs|smb3|smbfs|ceph|9p|virtiofs|afs|lustre|glusterfs|fuse\..*)$/;
/** Single files that container runtimes bind into place. */
const boundFiles = new Set(["/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log"]);

/** Real file systems, each once, local ones first. */
export function selectMounts(entries: readonly MountEntry[]): MountEntry[] {
  const visible = new Map<string, MountEntry>();
  // A later mount hides an earlier one on the same mount point.
  for (const entry of entries) visible.set(entry.mountPoint, entry);
  const chosen = new Map<string, MountEntry>();
  for (const entry of visible.values()) {
    if (skippedTypes.has(entry.fsType) || (entry.root !== "/" && boundFiles.has(entry.mountPoint))) continue;
    // Overlays of containers repeat the file system under them; the one at / is all that an agent inside a container sees.
    if (entry.fsType === "overlay" && entry.mountPoint !== "/") continue;
    const known = chosen.get(entry.device);
    if (!known || isPlainer(entry, known)) chosen.set(entry.device, entry);
  }
  const isRemote = (entry: MountEntry): number => (networkTypes.test(entry.fsType) ? 1 : 0);
  return [...chosen.values()].sort((a, b) => isRemote(a) - isRemote(b) || compare(a.mountPoint, b.mountPoint));
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** The whole file system rather than a bind of a part of it, then the shorter path. */
function isPlainer(entry: MountEntry, than: MountEntry): boolean {
  const isWhole = (one: MountEntry): boolean => one.root === "/";
  if (isWhole(entry) !== isWhole(than)) return isWhole(entry);
  return entry.mountPoint.length < than.mountPoint.length;
}

function usageOf(entry: MountEntry, stats: FileSystemStats): MountUsage {
  const bytes = (blocks: number): number => toSafeInteger(blocks * stats.bsize);
  return {
    mount: printable(entry.mountPoint, 512),
    device: printable(entry.source, 256),
    fsType: printable(entry.fsType, 64),
    sizeBytes: bytes(stats.blocks),
    usedBytes: bytes(stats.blocks - stats.bfree),
    availableBytes: bytes(stats.bavail),
    inodesTotal: toSafeInteger(stats.files),
    inodesUsed: toSafeInteger(stats.files - stats.ffree),
    readOnly: entry.options.includes("ro") || entry.superOptions.includes("ro"),
  };
}

type Outcome = { kind: "stats"; stats: FileSystemStats } | { kind: "failed" } | { kind: "timeout" };

export function createMountReader(root: HostRoot, options: MountReaderOptions = {}): MountReader {
  const timeoutMs = options.timeoutMs ?? 500;
  const statFileSystem = options.statFileSystem ?? ((path: string) => statfs(path));
  /** Mount points with a pending call; the entry of a hanging call outlives the sample. At most maxHanging of them. */
  const pending = new Set<string>();

  const statWithTimeout = async (mountPoint: string): Promise<Outcome> => {
    pending.add(mountPoint);
    const call = statFileSystem(root.resolve(mountPoint))
      .then<Outcome, Outcome>(
        (stats) => ({ kind: "stats", stats }),
        () => ({ kind: "failed" }),
      )
      .finally(() => pending.delete(mountPoint));
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<Outcome>((resolve) => {
      timer = setTimeout(resolve, timeoutMs, { kind: "timeout" });
    });
    const outcome = await Promise.race([call, timeout]);
    clearTimeout(timer);
    return outcome;
  };

  const scan = async (entries: readonly MountEntry[], signal?: AbortSignal): Promise<MountScan> => {
    const endsMs = performance.now() + 4 * timeoutMs;
    const selected = selectMounts(entries);
    const result: MountScan = { mounts: [], unresponsive: [], failed: 0, cut: Math.max(0, selected.length - maxMounts) };
    for (const entry of selected.slice(0, maxMounts)) {
      signal?.throwIfAborted();
      const mayCall = !pending.has(entry.mountPoint) && pending.size < maxHanging && performance.now() < endsMs;
      // One call at a time: a call that hangs is noticed before the next one is made.
      const outcome: Outcome = mayCall ? await statWithTimeout(entry.mountPoint) : { kind: "timeout" };
      if (outcome.kind === "timeout") result.unresponsive.push(printable(entry.mountPoint, 512));
      else if (outcome.kind === "failed") result.failed++;
      else if (outcome.stats.blocks > 0) result.mounts.push(usageOf(entry, outcome.stats));
    }
    return result;
  };
  return { scan };
}
