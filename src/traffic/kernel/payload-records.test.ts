import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { payloadRecordLayout as layout, PayloadRecordView } from "./payload-records.ts";

function record(bytes: string, change: (buffer: Buffer) => void = () => undefined): Buffer {
  const buffer = Buffer.concat([Buffer.alloc(layout.sizeBytes), Buffer.from(bytes)]);
  buffer.writeUInt16LE(bytes.length, layout.bytes);
  change(buffer);
  return buffer;
}

/** As in a ring: after other bytes. */
function read(buffer: Buffer, length = buffer.length): PayloadRecordView | null {
  const ring = Buffer.concat([Buffer.alloc(24, 0xee), buffer, Buffer.alloc(64, 0xee)]);
  const view = new PayloadRecordView();
  return view.read(new DataView(ring.buffer, ring.byteOffset, ring.length), 24, length, ring) ? view : null;
}

describe("PayloadRecordView", () => {
  it("reads every field", () => {
    const view = read(
      record("SELECT 1", (buffer) => {
        buffer[layout.kind] = 2;
        buffer[layout.protocol] = 5;
        buffer[layout.role] = 2;
        buffer[layout.flags] = 1 | 4;
        buffer[layout.direction] = 1;
        buffer[layout.missed] = 8;
        buffer.writeUInt32LE(9, layout.missed_datagrams);
        buffer.writeUInt32LE(77, layout.connection);
        buffer.writeUInt32LE(4242, layout.tgid);
        buffer.writeBigUInt64LE(14_224_882_477_253n, layout.at_ns);
        buffer.writeBigUInt64LE(14_224_882_400_000n, layout.start_ns);
        buffer.writeUInt32LE(9000, layout.length);
        buffer.writeUInt32LE(4096, layout.offset);
        buffer.writeUInt16LE(50_000, layout.local_port);
        buffer.writeUInt16LE(3306, layout.remote_port);
        Buffer.from("00000000000000000000ffff0a000001", "hex").copy(buffer, layout.remote);
        Buffer.from("20010db8000000000000000000000001", "hex").copy(buffer, layout.local);
      }),
    );
    expect(view).toMatchObject({
      protocol: "mysql",
      role: "client",
      isTls: true,
      isDatagram: false,
      isCapture: true,
      isSent: true,
      missed: { received: false, sent: true },
      missedDatagrams: 9,
      connectionId: 77,
      pid: 4242,
      atNs: 14_224_882_477_253,
      startNs: 14_224_882_400_000,
      lengthBytes: 9000,
      offsetBytes: 4096,
      localPort: 50_000,
      peerPort: 3306,
    });
    expect(view?.bytes.toString()).toBe("SELECT 1");
    expect(view?.peerAddress).toBe("10.0.0.1");
    expect(view?.localAddress).toBe("2001:db8::1");
  });

  it("separates lost copies of captures from lost records", () => {
    const both = (flags: number) =>
      read(
        record("", (buffer) => {
          buffer[layout.flags] = flags;
          buffer[layout.missed] = 1 | 8;
        }),
      );
    expect(both(0)).toMatchObject({ missed: { received: true, sent: false }, missedCopies: { received: false, sent: true } });
    expect(both(4)).toMatchObject({ missed: { received: false, sent: true } });
  });

  it("returns null for a protocol or role that the kernel does not set", () => {
    expect(read(record(""))).toMatchObject({ protocol: null, role: null });
    expect(read(record("", (buffer) => (buffer[layout.protocol] = 200)))).toMatchObject({ protocol: null });
  });

  it("rejects a truncated record", () => {
    expect(read(record("12345678"), layout.sizeBytes + 7)).toBeNull();
    expect(read(record(""), layout.sizeBytes - 1)).toBeNull();
    expect(read(record("12345678", (buffer) => buffer.writeUInt16LE(9, layout.bytes)))).toBeNull();
  });

  it("never shows bytes outside the record", () => {
    const random = new SeededRandom(3);
    for (let round = 0; round < 500; round++) {
      const buffer = Buffer.from(Array.from({ length: layout.sizeBytes + random.below(40) }, () => random.below(256)));
      const view = read(buffer);
      if (view !== null) expect(view.bytes.length).toBeLessThanOrEqual(buffer.length - layout.sizeBytes);
    }
  });
});
