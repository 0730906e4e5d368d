/** Milliseconds of processor time that the work takes in this process: others on the same machine do not make it more. */
export function cpuMsOf(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
