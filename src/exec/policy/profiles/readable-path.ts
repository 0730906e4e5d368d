/** Files whose contents the read-only profile may show: kernel counters, logs, and a few standard files without secrets. */

import type { ValueCheck } from "../argument-grammar.ts";
import type { RootFiles } from "../root-files.ts";

const allowed: readonly RegExp[] = [
  /^\/proc\/(?:meminfo|cpuinfo|stat|loadavg|uptime|vmstat|version|mounts|filesystems|swaps|diskstats|partitions|interrupts|softirqs|buddyinfo|zoneinfo)$/,
  /^\/proc\/(?:modules|cmdline|cgroups|devices|locks|schedstat|net\/[\w-]+|pressure\/(?:cpu|io|memory|irq)|sys\/(?:kernel|net|vm|fs)\/[\w/.-]+)$/,
  /^\/proc\/\d+\/(?:task\/\d+\/)?(?:status|stat|statm|io|limits|cgroup|sched|schedstat|wchan|oom_score|oom_score_adj|comm|cmdline)$/,
  /^\/proc\/\d+\/(?:task\/\d+\/)?(?:mountinfo|mounts|mountstats|numa_maps|smaps_rollup|net\/[\w-]+)$/,
  /^\/sys\/fs\/cgroup\/[^\0]+$/,
  /^\/sys\/(?:devices\/system|block|devices\/virtual\/net|devices\/virtual\/block)\/[\w/.:-]+$/,
  /^\/sys\/devices\/[\w/.:-]+\/(?:net|block)\/[\w/.:-]+$/,
  /^\/sys\/class\/net\/[\w.:-]+\/[\w/-]+$/,
  /^\/var\/log(?:\/[^\0]*)?$/,
  /^\/etc\/(?:os-release|hosts|resolv\.conf|hostname|nsswitch\.conf|debian_version|alpine-release|redhat-release|lsb-release|timezone|services)$/,
  /^\/etc\/(?:protocols|networks)$/,
  /^\/usr\/lib\/os-release$/,
  /^\/run\/systemd\/resolve\/(?:stub-)?resolv\.conf$/,
];

/** Both the requested path and the target of its links must be on the list. `..` is refused. */
export function readablePath(files: RootFiles): ValueCheck {
  return (path) => {
    if (!path.startsWith("/")) return "is not an absolute path";
    if (path.split("/").some((part) => part === ".." || part === ".")) return "contains . or ..";
    const plain = path.replace(/\/+/g, "/");
    const own = plain.replace(/^(\/proc\/)(?:self|thread-self)(?=\/)/, "$11");
    if (!allowed.some((pattern) => pattern.test(own))) return "is not among the files that may be read";
    const real = files.resolve(plain);
    // The program itself reports a missing file.
    if (real === null) return undefined;
    if (!real.stats.isFile() && !real.stats.isDirectory()) return "is not a plain file";
    return allowed.some((pattern) => pattern.test(real.path))
      ? undefined
      : `is a link to ${real.path}, which is not among the files that may be read`;
  };
}
