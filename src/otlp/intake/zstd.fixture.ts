/** Zstandard frames written by hand. */

const head = [0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
const maxBlockBytes = 128 * 1_024;

/** Three bytes: size, type (0 raw, 1 repeated byte, 2 compressed) and whether it is the last. */
export function zstdBlockHeader(sizeBytes: number, type: number, isLast: boolean): number[] {
  const header = (sizeBytes << 3) | (type << 1) | Number(isLast);
  return [header & 0xff, (header >> 8) & 0xff, header >> 16];
}

/** A frame with the uncompressed content. */
export function zstdStored(content: Uint8Array): Buffer {
  const blocks: Buffer[] = [];
  for (let at = 0; at === 0 || at < content.length; at += maxBlockBytes) {
    const part = content.subarray(at, at + maxBlockBytes);
    blocks.push(Buffer.from(zstdBlockHeader(part.length, 0, at + maxBlockBytes >= content.length)), Buffer.from(part));
  }
  return Buffer.concat([Buffer.from(head), ...blocks]);
}

/** A frame of blocks that each repeat one byte as often as a block can. */
export function zstdRepeated(blocks: number): Buffer {
  const block = (index: number): number[] => [...zstdBlockHeader(maxBlockBytes, 1, index === blocks - 1), 0x61];
  return Buffer.from([...head, ...Array.from({ length: blocks }, (_, index) => block(index)).flat()]);
}
