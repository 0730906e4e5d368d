import { describe, expect, it } from "vitest";
import type { BpfMap } from "../../bpf/index.ts";
import { trafficProtocols } from "../../model/protocols.ts";
import { controlsLayout, controlsOf, incrementControl, readFindings, writeControls } from "./kernel-controls.ts";

const names = (bits: number): string[] => trafficProtocols.filter((_, index) => (bits & (1 << (index + 1))) !== 0);

describe("controlsOf()", () => {
  it("skips more with each step", () => {
    expect(controlsOf(0, [])).toEqual({ sampleMask: 0, skippedProtocols: 0, disabledProtocols: 0, streamBytes: 0 });
    expect(controlsOf(1, [])).toMatchObject({ sampleMask: 0, skippedProtocols: 0, streamBytes: 256 });
    expect(controlsOf(2, [])).toMatchObject({ sampleMask: 7, skippedProtocols: 0, streamBytes: 256 });
    const skipped = names(controlsOf(3, []).skippedProtocols);
    expect(skipped).toEqual(expect.arrayContaining(["http2", "grpc", "mysql", "memcached", "mongodb", "kafka", "dns"]));
    expect(skipped.filter((name) => ["http", "redis", "postgres", "tls"].includes(name))).toEqual([]);
    expect(controlsOf(4, [])).toEqual(controlsOf(3, []));
  });

  it("skips disabled protocols at every step", () => {
    expect(names(controlsOf(0, ["redis", "dns"]).disabledProtocols)).toEqual(["redis", "dns"]);
  });
});

/** The map with its one entry, and its bytes. */
function storedControls(): { map: BpfMap; stored: Buffer } {
  const stored = Buffer.alloc(controlsLayout.sizeBytes);
  const map = {
    lookup: (_key: Buffer, value: Buffer) => stored.copy(value) > 0,
    update: (_key: Buffer, value: Buffer) => void value.copy(stored),
  } as unknown as BpfMap;
  return { map, stored };
}

describe("writeControls()", () => {
  it("writes the given controls, and moves the connection counter far ahead", () => {
    const { map, stored } = storedControls();
    stored.writeUInt32LE(1234, controlsLayout.nextConnection);
    stored.writeUInt32LE(1, controlsLayout.capturing);
    writeControls(map, { sampleMask: 7, skippedProtocols: 4, disabledProtocols: 64, streamBytes: 256 });
    expect(stored.readUInt32LE(controlsLayout.nextConnection)).toBe(1234 + 65_536);
    expect([4, 8, 12, 16, 20].map((at) => stored.readUInt32LE(at))).toEqual([7, 4, 1, 256, 64]);
    writeControls(map, { sampleMask: 0, skippedProtocols: 0, disabledProtocols: 0, streamBytes: 0, isCapturing: false });
    expect([4, 8, 12, 16, 20].map((at) => stored.readUInt32LE(at))).toEqual([0, 0, 0, 0, 0]);
  });
});

describe("incrementControl()", () => {
  it("increments the counter, wraps around, and changes nothing else", () => {
    const { map, stored } = storedControls();
    stored.writeUInt32LE(7, controlsLayout.sampleMask);
    stored.writeUInt32LE(0xffffffff, controlsLayout.tlsUnbound);
    for (let time = 0; time < 3; time++) incrementControl(map, "generation");
    incrementControl(map, "tlsUnbound");
    expect([4, 8, 12, 16, 20, 24, 28, 32].map((at) => stored.readUInt32LE(at))).toEqual([7, 0, 0, 0, 0, 3, 0, 0]);
  });
});

describe("readFindings()", () => {
  it("returns the kernel's flags", () => {
    const { map, stored } = storedControls();
    expect(readFindings(map)).toEqual({ longSends: false, hiddenReads: false });
    stored.writeUInt32LE(1, controlsLayout.longSends);
    expect(readFindings(map)).toEqual({ longSends: true, hiddenReads: false });
    stored.writeUInt32LE(1, controlsLayout.hiddenReads);
    expect(readFindings(map)).toEqual({ longSends: true, hiddenReads: true });
  });
});
