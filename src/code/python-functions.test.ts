import { describe, expect, it } from "vitest";
import { PythonFunctions } from "./python-functions.ts";
import { readPythonLayout } from "./python-layout.ts";

const nothing = (): Buffer => Buffer.alloc(0);
const layout = readPythonLayout("3.11", 0, nothing);

/** Memory with a code object at 0x1000, its name at 0x2000 and its file at 0x3000. */
function memoryWith(name: {
  text: string;
  state: number;
  at: number;
  encoding: "latin1" | "utf16le";
}): (address: number, sizeBytes: number) => Buffer {
  const bytes = Buffer.alloc(0x4000);
  bytes.writeBigUInt64LE(0x2000n, 0x1000 + 128);
  bytes.writeBigUInt64LE(0x3000n, 0x1000 + 112);
  bytes.writeInt32LE(42, 0x1000 + 72);
  const put = (address: number, text: string, state: number, at: number, encoding: "latin1" | "utf16le"): void => {
    bytes.writeUInt32LE(text.length, address + 16);
    bytes.writeUInt32LE(state, address + 32);
    bytes.write(text, address + at, encoding);
  };
  put(0x2000, name.text, name.state, name.at, name.encoding);
  put(0x3000, "/srv/shop/orders.py", 0x64, 48, "latin1");
  return (address, sizeBytes) => Buffer.from(bytes.subarray(address, Math.min(bytes.length, address + sizeBytes)));
}

describe("PythonFunctions", () => {
  it.for([
    ["ASCII", { text: "Order.total", state: 0x64, at: 48, encoding: "latin1" }],
    ["Latin-1", { text: "größe", state: 0x24, at: 72, encoding: "latin1" }],
    ["two bytes per character", { text: "žádost", state: 0x28, at: 72, encoding: "utf16le" }],
  ] as const)("reads a name in %s, with file and first line", ([, name]) => {
    if (layout === null) throw new Error("3.11 is known");
    expect(new PythonFunctions(layout, memoryWith(name)).find(0x1000)).toEqual({ name: name.text, file: "/srv/shop/orders.py", line: 42 });
  });

  it("returns no name when the memory is gone", () => {
    if (layout === null) throw new Error("3.11 is known");
    expect(new PythonFunctions(layout, nothing).find(0x1000)).toBeNull();
  });
});

describe("readPythonLayout()", () => {
  it("reads the offsets that 3.13 exports, and returns null for other versions", () => {
    const bytes = Buffer.alloc(44 * 8);
    bytes.write("xdebugpy", "latin1");
    bytes.writeUInt32LE(632, 5 * 8);
    bytes.writeUInt32LE(72, 23 * 8);
    expect(readPythonLayout("3.13", 1, () => bytes)).toMatchObject({ runtime: { interpreters: 632 }, thread: { frame: 72, holder: null } });
    expect(readPythonLayout("3.13", 1, () => Buffer.alloc(44 * 8))).toBeNull();
    expect(readPythonLayout("3.14", 1, () => bytes)).toBeNull();
  });
});
