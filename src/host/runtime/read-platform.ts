/** Names of operating system and architecture: Linux from its files, macOS from its property list, Windows from its kernel. */

import { arch, platform, release, version } from "node:os";
import { printable } from "../../base/escape-text.ts";
import type { HostRoot } from "../files/host-root.ts";
import { parseOsRelease } from "../metrics/machine.ts";

export interface PlatformFacts {
  /** linux, darwin, windows */
  os: string;
  /** amd64, arm64 */
  arch: string;
  /** `Ubuntu 22.04`, `macOS 14.2`, `Windows 11 Pro` */
  osVersion: string;
  kernel: string;
}

/** Node's view of the machine; tests replace it. */
export interface OsFacts {
  platform: string;
  arch: string;
  /** uname -r, or Windows' build. */
  release: string;
  /** uname -v, or Windows' name. */
  version: string;
}

export function nodeOsFacts(): OsFacts {
  return { platform: platform(), arch: arch(), release: release(), version: version() };
}

const archNames: Readonly<Record<string, string>> = { x64: "amd64", ia32: "386", arm: "arm", arm64: "arm64" };

export function readPlatform(root: HostRoot, facts: OsFacts = nodeOsFacts()): PlatformFacts {
  const archName = archNames[facts.arch] ?? facts.arch;
  switch (facts.platform) {
    case "darwin":
      return { os: "darwin", arch: archName, osVersion: macVersion(root, facts), kernel: `Darwin ${printable(facts.release, 64)}` };
    case "win32":
      return { os: "windows", arch: archName, osVersion: printable(facts.version, 128), kernel: `NT ${printable(facts.release, 64)}` };
    default:
      return { os: facts.platform, arch: archName, osVersion: linuxVersion(root), kernel: linuxKernel(root, facts) };
  }
}

/** `Ubuntu 22.04`, `Alpine Linux 3.19`: name and version number, without code names and points. */
function linuxVersion(root: HostRoot): string {
  const text = root.readText("/etc/os-release", undefined, 65_536) ?? root.readText("/usr/lib/os-release", undefined, 65_536) ?? "";
  const values = parseOsRelease(text);
  const name = (values.get("NAME") ?? "").replace(/ GNU\/Linux$/, "");
  const number = values.get("VERSION_ID") ?? "";
  return printable([name, number].filter((part) => part !== "").join(" ") || (values.get("PRETTY_NAME") ?? ""), 128);
}

function linuxKernel(root: HostRoot, facts: OsFacts): string {
  return printable((root.readText("/proc/sys/kernel/osrelease", undefined, 1_024) ?? facts.release).trim(), 128);
}

const systemVersion = "/System/Library/CoreServices/SystemVersion.plist";

function macVersion(root: HostRoot, facts: OsFacts): string {
  const text = root.readText(systemVersion, undefined, 65_536) ?? "";
  const number = /<key>ProductVersion<\/key>\s*<string>([\d.]{1,16})<\/string>/.exec(text)?.[1];
  if (number !== undefined) return `macOS ${number}`;
  // Since macOS 11 the kernel's major version is 9 ahead; 25 is macOS 26.
  const major = Number(/^(\d+)\./.exec(facts.release)?.[1] ?? Number.NaN);
  if (Number.isNaN(major)) return "macOS";
  return major >= 25 ? `macOS ${major + 1}` : major >= 20 ? `macOS ${major - 9}` : "macOS";
}
