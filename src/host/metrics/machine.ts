import { machine as machineName } from "node:os";
import { printable } from "../../base/escape-text.ts";
import type { HostRoot } from "../files/host-root.ts";
import { parseUptimeS } from "./loadavg.ts";

/** What this machine is. Texts are empty if unknown. */
export interface MachineInfo {
  hostname: string;
  /** Random, made at installation; equal on cloned disk images. */
  machineId: string;
  /** Random per boot of the kernel. */
  bootId: string;
  /** `Debian GNU/Linux 12 (bookworm)`. */
  os: string;
  /** `6.1.0-18-amd64`. */
  kernel: string;
  /** As in uname(1): `x86_64`, `aarch64`. */
  arch: string;
  uptimeS: number;
}

/** `NAME="value"` lines in the shell's quoting; the few escapes it allows are undone. */
export function parseOsRelease(text: string): Map<string, string> {
  const values = new Map<string, string>();
  for (const line of text.split("\n").slice(0, 200)) {
    const match = /^([A-Z][A-Z0-9_]*)=(.*)$/.exec(line.trim());
    if (!match) continue;
    const raw = match[2] ?? "";
    const quoted = /^(["'])(.*)\1$/.exec(raw);
    values.set(match[1] ?? "", (quoted?.[2] ?? raw).replace(/\\(["'\\$`])/g, "$1"));
  }
  return values;
}

export function readMachine(root: HostRoot): MachineInfo {
  const line = (...paths: string[]): string => {
    for (const path of paths) {
      const text = printable((root.readText(path, undefined, 4096) ?? "").trim(), 256);
      if (text !== "") return text;
    }
    return "";
  };
  const release = parseOsRelease(
    root.readText("/etc/os-release", undefined, 65_536) ?? root.readText("/usr/lib/os-release", undefined, 65_536) ?? "",
  );
  const os = release.get("PRETTY_NAME") ?? [release.get("NAME"), release.get("VERSION_ID")].filter(Boolean).join(" ");
  // Under another root, the UTS namespace has the name of the agent's container; /etc/hostname has the host's.
  const hostname =
    root.path === "/" ? line("/proc/sys/kernel/hostname", "/etc/hostname") : line("/etc/hostname", "/proc/sys/kernel/hostname");
  const machineId = line("/etc/machine-id", "/var/lib/dbus/machine-id");
  return {
    hostname,
    // Images that were never booted hold the word "uninitialized".
    machineId: /^[0-9a-f]{32}$/.test(machineId) ? machineId : "",
    bootId: line("/proc/sys/kernel/random/boot_id"),
    os: printable(os, 256),
    kernel: line("/proc/sys/kernel/osrelease"),
    arch: machineName(),
    uptimeS: parseUptimeS(root.readText("/proc/uptime") ?? ""),
  };
}
