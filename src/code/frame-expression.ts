/** Evaluates expressions of call-frame tables, which PLT stubs and signal frames use: a small stack machine. <dwarf.h>, DW_OP_*. */

const operation = {
  load: 0x06,
  const1u: 0x08,
  const1s: 0x09,
  const2u: 0x0a,
  const2s: 0x0b,
  const4u: 0x0c,
  const4s: 0x0d,
  constu: 0x10,
  consts: 0x11,
  duplicate: 0x12,
  drop: 0x13,
  and: 0x1a,
  subtract: 0x1c,
  add: 0x22,
  addConstant: 0x23,
  shiftLeft: 0x24,
  greaterOrEqual: 0x2a,
  literal0: 0x30,
  register0: 0x70,
} as const;

const maxOperations = 64;
const maxStack = 32;

/** NaN if it cannot be computed. `read` returns NaN for unknown memory. */
export function evaluateFrameExpression(
  expression: Buffer,
  registers: Float64Array,
  read: (address: number) => number,
  frame?: number,
): number {
  const stack = frame === undefined ? [] : [frame];
  const cursor = { at: 0 };
  try {
    for (let count = 0; cursor.at < expression.length; count++) {
      if (count >= maxOperations || stack.length > maxStack || !step(expression, cursor, stack, registers, read)) return Number.NaN;
    }
  } catch (error) {
    if (error instanceof RangeError) return Number.NaN; // the expression ends inside an operand
    throw error;
  }
  return stack.at(-1) ?? Number.NaN;
}

function step(bytes: Buffer, cursor: { at: number }, stack: number[], registers: Float64Array, read: (address: number) => number): boolean {
  const code = bytes.readUInt8(cursor.at++);
  if (code >= operation.literal0 && code < operation.literal0 + 32) {
    stack.push(code - operation.literal0);
    return true;
  }
  if (code >= operation.register0 && code < operation.register0 + 32) {
    stack.push((registers[code - operation.register0] ?? Number.NaN) + leb(bytes, cursor, true));
    return true;
  }
  const constant = constantOf(bytes, cursor, code);
  if (constant !== undefined) {
    stack.push(constant);
    return true;
  }
  const last = stack.pop();
  if (last === undefined) return false;
  switch (code) {
    case operation.drop:
      return true;
    case operation.duplicate:
      stack.push(last, last);
      return true;
    case operation.load:
      stack.push(read(last));
      return true;
    case operation.addConstant:
      stack.push(last + leb(bytes, cursor, false));
      return true;
    default:
      return combine(code, last, stack);
  }
}

function combine(code: number, last: number, stack: number[]): boolean {
  const first = stack.pop();
  if (first === undefined) return false;
  switch (code) {
    case operation.add:
      stack.push(first + last);
      return true;
    case operation.subtract:
      stack.push(first - last);
      return true;
    case operation.shiftLeft:
      stack.push(first * 2 ** last);
      return true;
    case operation.greaterOrEqual:
      stack.push(first >= last ? 1 : 0);
      return true;
    case operation.and:
      // Addresses are below 2^53, so the lower 32 bits of both are exact.
      if (last < 0 || last >= 2 ** 32 || !Number.isSafeInteger(first)) return false;
      stack.push(((((first % 2 ** 32) + 2 ** 32) % 2 ** 32) & last) >>> 0);
      return true;
    default:
      return false;
  }
}

function constantOf(bytes: Buffer, cursor: { at: number }, code: number): number | undefined {
  const start = cursor.at;
  const sized = (size: number, value: number): number => {
    cursor.at = start + size;
    return value;
  };
  switch (code) {
    case operation.const1u:
      return sized(1, bytes.readUInt8(start));
    case operation.const1s:
      return sized(1, bytes.readInt8(start));
    case operation.const2u:
      return sized(2, bytes.readUInt16LE(start));
    case operation.const2s:
      return sized(2, bytes.readInt16LE(start));
    case operation.const4u:
      return sized(4, bytes.readUInt32LE(start));
    case operation.const4s:
      return sized(4, bytes.readInt32LE(start));
    case operation.constu:
      return leb(bytes, cursor, false);
    case operation.consts:
      return leb(bytes, cursor, true);
    default:
      return undefined;
  }
}

/** LEB128. */
function leb(bytes: Buffer, cursor: { at: number }, isSigned: boolean): number {
  let [value, factor] = [0, 1];
  for (let count = 0; count < 8; count++) {
    const byte = bytes.readUInt8(cursor.at++);
    value += (byte & 0x7f) * factor;
    factor *= 128;
    if (byte < 0x80) return isSigned && (byte & 0x40) !== 0 ? value - factor : value;
  }
  throw new RangeError("a number is too long");
}
