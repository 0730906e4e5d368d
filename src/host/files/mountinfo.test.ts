import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { parseMountInfo } from "./mountinfo.ts";

const lines = [
  "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard",
  "36 35 98:0 /mnt1 /mnt\\040two/a\\134b rw,noatime master:1 propagate_from:2 - ext3 /dev/root rw,errors=continue",
  "41 31 0:38 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw",
];

describe("parseMountInfo()", () => {
  it("reads optional fields and escapes", () => {
    expect(parseMountInfo(`${lines.join("\n")}\n`)).toEqual([
      {
        device: "254:0",
        root: "/",
        mountPoint: "/",
        options: ["rw", "relatime"],
        fsType: "ext4",
        source: "/dev/vda",
        superOptions: ["rw", "discard"],
      },
      {
        device: "98:0",
        root: "/mnt1",
        mountPoint: "/mnt two/a\\b",
        options: ["rw", "noatime"],
        fsType: "ext3",
        source: "/dev/root",
        superOptions: ["rw", "errors=continue"],
      },
      {
        device: "0:38",
        root: "/",
        mountPoint: "/sys/fs/cgroup/unified",
        options: ["rw"],
        fsType: "cgroup2",
        source: "cgroup2",
        superOptions: ["rw"],
      },
    ]);
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([lines.join("\n")], 11)) {
      for (const entry of parseMountInfo(text)) expect(entry.mountPoint.startsWith("/")).toBe(true);
    }
  });
});
