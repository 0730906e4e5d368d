import { execFileSync } from "node:child_process";
import { describe, expect, it, vi } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { parseMountInfo } from "../files/mountinfo.ts";
import { hasCommand } from "../host-tree.fixture.ts";
import { createMountReader, type FileSystemStats, selectMounts } from "./mounts.ts";

const mount = (device: string, root: string, point: string, fsType: string, source = "/dev/x", options = "rw"): string =>
  `1 1 ${device} ${root} ${point} ${options},relatime - ${fsType} ${source} rw`;
const entriesOf = (...lines: string[]) => parseMountInfo(lines.join("\n"));
const pointsOf = (...lines: string[]): string[] => selectMounts(entriesOf(...lines)).map((entry) => entry.mountPoint);
const stats: FileSystemStats = { bsize: 4096, blocks: 1000, bfree: 400, bavail: 300, files: 50, ffree: 20 };

describe("selectMounts()", () => {
  it("skips pseudo file systems, images and container overlays", () => {
    const points = pointsOf(
      mount("0:21", "/", "/proc", "proc"),
      mount("0:25", "/", "/dev/shm", "tmpfs"),
      mount("8:1", "/", "/", "ext4"),
      mount("8:2", "/", "/boot", "vfat"),
      mount("7:1", "/", "/snap/core/1", "squashfs"),
      mount("0:50", "/", "/var/lib/docker/overlay2/abc/merged", "overlay", "overlay"),
      mount("0:51", "net:[4026532]", "/run/netns/a", "nsfs"),
      mount("0:52", "/", "/misc", "autofs"),
    );
    expect(points).toEqual(["/", "/boot"]);
  });

  it("lists a file system once, at the mount that shows all of it", () => {
    const points = pointsOf(
      mount("8:1", "/var/lib/kubelet/x", "/a", "ext4"),
      mount("8:1", "/", "/mnt/whole", "ext4"),
      mount("8:1", "/", "/mnt/whole-again", "ext4"),
      mount("8:9", "/sub", "/bind/only", "xfs"),
      mount("8:9", "/sub", "/bind", "xfs"),
    );
    expect(points).toEqual(["/bind", "/mnt/whole"]);
  });

  it("lists an overlay if it is the root, and skips files bound into a container", () => {
    const points = pointsOf(
      mount("0:99", "/", "/", "overlay", "overlay"),
      mount("8:1", "/var/lib/docker/containers/x/hosts", "/etc/hosts", "ext4"),
      mount("8:1", "/var/lib/docker/volumes/v/_data", "/data", "ext4"),
    );
    expect(points).toEqual(["/", "/data"]);
  });

  it("lists the topmost mount of a mount point", () => {
    expect(selectMounts(entriesOf(mount("8:1", "/", "/mnt", "ext4"), mount("8:2", "/", "/mnt", "xfs")))).toMatchObject([{ fsType: "xfs" }]);
  });

  it("lists network file systems last", () => {
    expect(
      pointsOf(mount("0:9", "/", "/a", "nfs4", "server:/x"), mount("0:8", "/", "/b", "fuse.sshfs"), mount("8:1", "/", "/z", "ext4")),
    ).toEqual(["/z", "/a", "/b"]);
  });
});

describe("createMountReader()", () => {
  const root = createHostRoot("/nowhere");

  it("converts blocks to bytes", async () => {
    const reader = createMountReader(root, { statFileSystem: async () => stats });
    const scan = await reader.scan(entriesOf(mount("8:1", "/", "/data", "ext4", "/dev/sda1", "ro")));
    expect(scan).toEqual({
      mounts: [
        {
          mount: "/data",
          device: "/dev/sda1",
          fsType: "ext4",
          sizeBytes: 4_096_000,
          usedBytes: 600 * 4096,
          availableBytes: 300 * 4096,
          inodesTotal: 50,
          inodesUsed: 30,
          readOnly: true,
        },
      ],
      unresponsive: [],
      failed: 0,
      cut: 0,
    });
  });

  it("skips empty ones, counts failures, and holds huge sizes within a column", async () => {
    const statFileSystem = async (path: string): Promise<FileSystemStats> => {
      if (path.endsWith("/bad")) throw new Error("EIO");
      return path.endsWith("/huge") ? { ...stats, blocks: 2 ** 62, bfree: 2 ** 62 } : { ...stats, blocks: 0 };
    };
    const entries = entriesOf(mount("8:1", "/", "/bad", "ext4"), mount("8:2", "/", "/zero", "ext4"), mount("8:3", "/", "/huge", "ext4"));
    const scan = await createMountReader(root, { statFileSystem }).scan(entries);
    expect(scan.failed).toBe(1);
    expect(scan.mounts).toMatchObject([{ mount: "/huge", sizeBytes: Number.MAX_SAFE_INTEGER, usedBytes: 0 }]);
  });

  it("neither waits for a dead server nor retries while the call hangs", async () => {
    const calls: string[] = [];
    let isGone = true;
    let respond: (value: FileSystemStats) => void = () => undefined;
    const statFileSystem = (path: string): Promise<FileSystemStats> => {
      calls.push(path);
      return path.endsWith("/nfs") && isGone
        ? new Promise((resolve) => {
            respond = resolve;
          })
        : Promise.resolve(stats);
    };
    const entries = entriesOf(mount("0:9", "/", "/nfs", "nfs4"), mount("8:1", "/", "/local", "ext4"));
    const reader = createMountReader(root, { statFileSystem, timeoutMs: 20 });
    for (let round = 0; round < 3; round++) {
      expect(await reader.scan(entries)).toMatchObject({ mounts: [{ mount: "/local" }], unresponsive: ["/nfs"] });
    }
    expect(calls.filter((path) => path.endsWith("/nfs"))).toHaveLength(1);
    isGone = false;
    respond(stats);
    await vi.waitFor(async () => expect((await reader.scan(entries)).unresponsive).toEqual([]));
    expect(calls.filter((path) => path.endsWith("/nfs")).length).toBeGreaterThan(1);
  });

  it("leaves at most two calls hanging, for any number of dead mounts", async () => {
    let calls = 0;
    const statFileSystem = (): Promise<FileSystemStats> => {
      calls++;
      return new Promise(() => undefined);
    };
    const entries = entriesOf(...Array.from({ length: 9 }, (_, index) => mount(`0:${index}`, "/", `/n${index}`, "nfs")));
    const reader = createMountReader(root, { statFileSystem, timeoutMs: 10 });
    expect((await reader.scan(entries)).unresponsive).toHaveLength(9);
    expect((await reader.scan(entries)).unresponsive).toHaveLength(9);
    expect(calls).toBe(2);
  });

  it("counts file systems above the limit", async () => {
    const entries = entriesOf(...Array.from({ length: 80 }, (_, index) => mount(`8:${index}`, "/", `/m${index}`, "ext4")));
    const scan = await createMountReader(root, { statFileSystem: async () => stats }).scan(entries);
    expect([scan.mounts.length, scan.cut]).toEqual([64, 16]);
  });

  it.skipIf(!hasCommand("df"))("agrees with df(1) on this machine", async () => {
    const host = createHostRoot();
    await vi.waitFor(
      async () => {
        const scan = await createMountReader(host).scan(parseMountInfo(host.readText("/proc/self/mountinfo") ?? ""));
        const ours = scan.mounts.find((one) => one.mount === "/");
        const [source, size, used, available, inodes] = execFileSync("df", ["-B1", "--output=source,size,used,avail,itotal", "/"], {
          encoding: "utf8",
        })
          .split("\n")[1]!
          .trim()
          .split(/\s+/);
        expect(ours).toMatchObject({ device: source, sizeBytes: Number(size), inodesTotal: Number(inodes) });
        // Other processes write to the same disk meanwhile.
        expect(Math.abs(ours!.usedBytes - Number(used))).toBeLessThan(16 * 1024 * 1024);
        expect(Math.abs(ours!.availableBytes - Number(available))).toBeLessThan(16 * 1024 * 1024);
      },
      { timeout: 10_000 },
    );
  });
});
