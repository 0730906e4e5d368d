/** Tells the milliseconds of processor time that this process has taken since: others on the same machine do not make them more. */
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
