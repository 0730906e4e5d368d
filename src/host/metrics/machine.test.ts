import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree } from "../host-tree.fixture.ts";
import { parseOsRelease, readMachine } from "./machine.ts";

const debian = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian\n';

describe("parseOsRelease()", () => {
  it("undoes the shell's quoting", () => {
    const values = parseOsRelease(`${debian}# comment\nX='single'\nY="a \\"b\\" \\$c"\nlower=no\n`);
    expect(Object.fromEntries(values)).toMatchObject({ ID: "debian", VERSION_ID: "12", X: "single", Y: 'a "b" $c' });
    expect(values.has("lower")).toBe(false);
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([debian], 9)) expect(parseOsRelease(text).size).toBeLessThanOrEqual(200);
  });
});

describe("readMachine()", () => {
  it("reads a host under another root", () => {
    using tree = createHostTree({
      "etc/os-release": 'NAME="Alpine"\nVERSION_ID=3.20\n',
      "etc/hostname": "db-\u001b[31m1\n",
      "etc/machine-id": "3d1219c7c4c5404aaa1f6d2a48adfda4\n",
      "proc/sys/kernel/hostname": "container\n",
      "proc/sys/kernel/osrelease": "5.15.0-97-generic\n",
      "proc/sys/kernel/random/boot_id": "12405832-2c4e-4cf4-b0ac-96982b365121\n",
      "proc/uptime": "100.5 3.0\n",
    });
    expect(readMachine(createHostRoot(tree.root))).toMatchObject({
      hostname: "db-[31m1",
      machineId: "3d1219c7c4c5404aaa1f6d2a48adfda4",
      bootId: "12405832-2c4e-4cf4-b0ac-96982b365121",
      os: "Alpine 3.20",
      kernel: "5.15.0-97-generic",
      uptimeS: 100.5,
    });
  });

  it("omits what an empty host does not report", () => {
    using tree = createHostTree({ "etc/machine-id": "uninitialized\n" });
    expect(readMachine(createHostRoot(tree.root))).toMatchObject({
      hostname: "",
      machineId: "",
      bootId: "",
      os: "",
      kernel: "",
      uptimeS: 0,
    });
  });

  it("agrees with uname(1) on this machine", () => {
    const machine = readMachine(createHostRoot());
    const uname = execFileSync("uname", ["-nrm"], { encoding: "utf8" }).trim();
    expect(`${machine.hostname} ${machine.kernel} ${machine.arch}`).toBe(uname);
    expect(machine.uptimeS).toBeGreaterThan(0);
  });
});
