import { expect, it } from "vitest";
import { processFigures } from "./process-figures.ts";

const read = (name: string): number => processFigures.find((figure) => figure.name === name)?.read() ?? Number.NaN;

it("processFigures read what this process uses", () => {
  expect(read("process_resident_memory_bytes")).toBeGreaterThan(10 * 1024 ** 2);
  expect(read("nodejs_heap_size_used_bytes")).toBeGreaterThan(1024 ** 2);
  expect(read("nodejs_external_memory_bytes")).toBeGreaterThan(0);
  expect(read("process_start_time_seconds") * 1_000).toBeLessThanOrEqual(Date.now());
  expect(read("process_start_time_seconds") * 1_000).toBeGreaterThan(Date.now() - 3_600_000);
});

it("processFigures count CPU time upwards", () => {
  const before = read("process_cpu_seconds_total");
  const untilMs = performance.now() + 30;
  while (performance.now() < untilMs) Math.sqrt(untilMs);
  expect(read("process_cpu_seconds_total")).toBeGreaterThan(before);
});
