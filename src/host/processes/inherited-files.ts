import { closeSync } from "node:fs";
import { createHostRoot, type HostRoot } from "../files/host-root.ts";

/** <fcntl.h>, as `/proc/self/fdinfo` writes it. */
const closeOnExec = 0o2000000;

/**
 * Closes descriptors that this process inherited, except its three standard streams: every program that it starts would inherit them, too. Node
 * and its libraries open theirs with O_CLOEXEC. Returns the closed descriptors.
 */
export function closeInheritedFiles(root: HostRoot = createHostRoot(), close: (descriptor: number) => void = closeSync): number[] {
  const inherited = (root.list("/proc/self/fd") ?? []).map(Number).filter((descriptor) => {
    if (!(descriptor > 2)) return false;
    const flags = /^flags:\s*([0-7]+)$/m.exec(root.readText(`/proc/self/fdinfo/${descriptor}`) ?? "")?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0;
  });
  for (const descriptor of inherited) close(descriptor);
  return inherited;
}
