/** One number that a process knows of itself, under the name that Prometheus users expect. */
export interface ProcessFigure {
  name: string;
  help: string;
  kind: "counter" | "gauge";
  read: () => number;
}

/**
 * What /metrics says of a daemon's process. No monitor of the event loop: it would wake the process a hundred times
 * a second, which is a third of what an idle agent may use.
 */
export const processFigures: readonly ProcessFigure[] = [
  {
    name: "process_cpu_seconds_total",
    help: "CPU time of this process, user and system, in seconds",
    kind: "counter",
    read: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    },
  },
  { name: "process_resident_memory_bytes", help: "Resident memory of this process", kind: "gauge", read: () => process.memoryUsage.rss() },
  {
    name: "process_start_time_seconds",
    help: "When this process began, in seconds since 1970",
    kind: "gauge",
    // Cut, not rounded: a start must not lie in the future.
    read: () => Math.floor(performance.timeOrigin) / 1_000,
  },
  { name: "nodejs_heap_size_used_bytes", help: "JavaScript heap in use", kind: "gauge", read: () => process.memoryUsage().heapUsed },
  {
    name: "nodejs_external_memory_bytes",
    help: "Memory that JavaScript objects hold outside the heap",
    kind: "gauge",
    read: () => process.memoryUsage().external,
  },
];
