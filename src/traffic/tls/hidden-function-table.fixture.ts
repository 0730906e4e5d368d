import { readElfImage } from "../../code/index.ts";

/** Hides where the functions of a library end: marks its exception table as being of another type. */
export function hideFunctionTable(library: Buffer): void {
  const segments = readElfImage((into, offset) => library.copy(into, 0, offset))?.segments ?? [];
  const unwinding = segments.find(({ type }) => type === 0x6474e550);
  if (unwinding === undefined) throw new Error("The library has no such table");
  library[unwinding.fileOffset] = 0xff;
}
