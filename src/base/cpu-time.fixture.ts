/** Measures CPU milliseconds of this process only, so load from other processes does not count. */
export function startCpuClock(): () => number {
  const before = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  };
}

export function cpuMsOf(work: () => void): number {
  const cpuMs = startCpuClock();
  work();
  return cpuMs();
}
