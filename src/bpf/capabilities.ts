import { createRequire } from "node:module";

/** Bit numbers of the capabilities that Coral checks: <linux/capability.h>. */
const capabilityBits = {
  CAP_DAC_READ_SEARCH: 2n,
  CAP_SYS_PTRACE: 19n,
  CAP_SYS_ADMIN: 21n,
  CAP_PERFMON: 38n,
  CAP_BPF: 39n,
} as const;

export type CapabilityName = keyof typeof capabilityBits;

const LINUX_CAPABILITY_VERSION_3 = 0x20080522;

/** capget(2) of this process: its effective capability bits; 0 if it cannot be called. */
export function effectiveCapabilities(): bigint {
  if (process.platform !== "linux") return 0n;
  const koffi = createRequire(import.meta.url)("koffi") as typeof import("koffi");
  const capget = koffi.load(null).func("int capget(void *header, void *data)");
  const header = Buffer.alloc(8);
  header.writeUInt32LE(LINUX_CAPABILITY_VERSION_3, 0);
  const data = Buffer.alloc(24);
  if (capget(header, data) !== 0) return 0n;
  // Two triples of 32 bits: effective, permitted, inheritable; low half first.
  return (BigInt(data.readUInt32LE(12)) << 32n) | BigInt(data.readUInt32LE(0));
}

export function hasCapability(capabilities: bigint, name: CapabilityName): boolean {
  return ((capabilities >> capabilityBits[name]) & 1n) === 1n;
}

/** The given capabilities that this process lacks. */
export function missingCapabilities(names: readonly CapabilityName[]): CapabilityName[] {
  const capabilities = effectiveCapabilities();
  return names.filter((name) => !hasCapability(capabilities, name));
}
