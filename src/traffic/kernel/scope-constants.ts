import { ownPidNamespace } from "../../host/index.ts";

/**
 * The constants of probes/core/scope.h: hooks record only processes with a pid in this namespace. 0 means that every process is in scope: in the
 * initial namespace, and where the kernel does not report the namespace.
 */
export function scopeConstants(namespace = ownPidNamespace()): { pid_namespace_inode: number } {
  return { pid_namespace_inode: namespace === null || namespace.isFirst ? 0 : namespace.inode };
}
