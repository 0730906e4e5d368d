import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { readBtfLayout } from "../../bpf/index.ts";
import { runtimeLayout } from "./runtime-table.ts";
import { createSampleReader, maxKernelFrames, maxRuntimeFrames, maxUserFrames, sampleLayout } from "./sample-record.ts";

const directory = mkdtempSync(join(tmpdir(), "coral-sample-"));
afterAll(() => rmSync(directory, { recursive: true }));

/** Compiled from source, because an earlier build may be stale. */
function compile(): string {
  const object = join(directory, "profile.bpf.o");
  const probes = fileURLToPath(new URL("../../../probes", import.meta.url));
  const source = join(probes, "profile/profile.bpf.c");
  execFileSync("clang", ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-D__TARGET_ARCH_x86", `-I${probes}`, "-c", source, "-o", object], {
    stdio: "pipe",
  });
  return object;
}

describe("CPU samples", () => {
  it.runIf(spawnSync("clang", ["--version"]).status === 0)("have the layout of the kernel program's structure", () => {
    const { fields } = readBtfLayout(compile()).struct("cpu_sample");
    for (const [name, offset] of Object.entries(sampleLayout)) expect([name, fields.get(name)?.offsetBytes]).toEqual([name, offset]);
    expect(fields.get("kernel")?.sizeBytes).toBe(maxKernelFrames * 8);
    expect(fields.get("user")?.sizeBytes).toBe(Math.max(maxUserFrames * 8, maxRuntimeFrames * 16));
  });

  it.runIf(spawnSync("clang", ["--version"]).status === 0)("have the layout of the kernel's table of runtimes", () => {
    const { fields } = readBtfLayout(compile()).struct("runtime");
    for (const [name, offset] of Object.entries(runtimeLayout)) expect([name, fields.get(name)?.offsetBytes]).toEqual([name, offset]);
  });

  it("hold pairs of address and function where the process has a runtime", () => {
    const bytes = Buffer.alloc(sampleLayout.stack);
    bytes.writeUInt32LE(1, sampleLayout.runtime_kind);
    bytes.writeUInt32LE(2, sampleLayout.user_frames);
    for (const [index, word] of [0x1000n, 0x2001n, 0x3000n, 0n].entries()) bytes.writeBigUInt64LE(word, sampleLayout.user + index * 8);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    expect(createSampleReader()(view, 0, bytes.length, bytes)).toMatchObject({
      user: [],
      runtime: [
        { address: 0x1000, pointer: 0x2001 },
        { address: 0x3000, pointer: 0 },
      ],
    });
  });

  it("are read with names, frames, registers and the copied stack", () => {
    const bytes = Buffer.alloc(64 + sampleLayout.stack + 16);
    const at = 64;
    bytes.writeUInt32LE(4_242, at + sampleLayout.process);
    bytes.writeBigUInt64LE(77n, at + sampleLayout.started_ns);
    bytes.writeBigUInt64LE(0x1234n, at + sampleLayout.registers);
    bytes.writeBigUInt64LE(0x7000n, at + sampleLayout.registers + 8);
    bytes.writeUInt32LE(1, at + sampleLayout.kernel_frames);
    bytes.writeUInt32LE(2, at + sampleLayout.user_frames);
    bytes.writeUInt32LE(16, at + sampleLayout.stack_bytes);
    bytes.write("worker", at + sampleLayout.thread_name);
    bytes.write("nginx", at + sampleLayout.process_name);
    bytes.writeBigUInt64LE(0xffffffff81000123n, at + sampleLayout.kernel);
    bytes.writeBigUInt64LE(0x5000n, at + sampleLayout.user);
    bytes.writeBigUInt64LE(99n, at + sampleLayout.stack + 8);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const sample = createSampleReader()(view, at, bytes.length - at, bytes);
    expect(sample).toMatchObject({
      pid: 4_242,
      startedNs: 77,
      threadName: "worker",
      processName: "nginx",
      kernel: [0xffff81000123],
      user: [0x5000, 0],
    });
    expect(sample?.registers?.[16]).toBe(0x1234);
    expect(sample?.registers?.[7]).toBe(0x7000);
    expect(sample?.stack.getBigUint64(8, true)).toBe(99n);
  });

  it("are rejected when shorter than declared", () => {
    const bytes = Buffer.alloc(sampleLayout.stack + 8);
    bytes.writeUInt32LE(16, sampleLayout.stack_bytes);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const read = createSampleReader();
    expect(read(view, 0, bytes.length, bytes)).toBeNull();
    expect(read(view, 0, sampleLayout.stack - 1, bytes)).toBeNull();
  });
});
