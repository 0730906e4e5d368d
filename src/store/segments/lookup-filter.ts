/**
 * A Bloom filter over the 16-byte ids of a segment: about 10 bits per id and 7 probes, 1 % false positives. Ids are usually random, but a
 * sender may choose them, so they are hashed first.
 */

const bitsPerId = 10;
const probes = 7;
/** 1 MiB. Beyond 800,000 ids the false-positive rate rises. */
const maxBits = 8 * 1024 * 1024;

/** `ids`: 16 bytes each, repeats allowed. The filter is sized for distinct ids. */
export function buildLookupFilter(ids: Uint8Array, count: number): Uint8Array {
  const view = new DataView(ids.buffer, ids.byteOffset, ids.byteLength);
  const bits = Math.min(maxBits, Math.max(64, Math.ceil((countDistinct(view, count) * bitsPerId) / 64) * 64));
  const filter = new Uint8Array(bits / 8);
  for (let index = 0; index < count; index++) {
    const { first, step } = mixed(view, index * 16);
    let at = first % bits;
    const stride = step % bits;
    for (let probe = 0; probe < probes; probe++) {
      filter[at >> 3] = (filter[at >> 3] as number) | (1 << (at & 7));
      at += stride;
      if (at >= bits) at -= bits;
    }
  }
  return filter;
}

/** Counts distinct hashes, so colliding ids count once. */
function countDistinct(view: DataView, count: number): number {
  const slots = 2 ** Math.ceil(Math.log2(Math.max(2, count * 2)));
  const seen = new Uint32Array(slots);
  let different = 0;
  for (let index = 0; index < count; index++) {
    const hash = mixed(view, index * 16).step;
    let slot = hash & (slots - 1);
    while (seen[slot] !== 0 && seen[slot] !== hash) slot = (slot + 1) & (slots - 1);
    if (seen[slot] === 0) {
      seen[slot] = hash;
      different++;
    }
  }
  return different;
}

/** False: the id is certainly absent. An empty filter always returns true. */
export function mightContain(filter: Uint8Array, id: Uint8Array): boolean {
  const bits = filter.length * 8;
  if (bits === 0 || id.length !== 16) return true;
  const { first, step } = mixed(new DataView(id.buffer, id.byteOffset, 16), 0);
  let at = first % bits;
  const stride = step % bits;
  for (let probe = 0; probe < probes; probe++) {
    if ((((filter[at >> 3] as number) >> (at & 7)) & 1) === 0) return false;
    at += stride;
    if (at >= bits) at -= bits;
  }
  return true;
}

function mixed(view: DataView, at: number): { first: number; step: number } {
  const a = view.getUint32(at) ^ Math.imul(view.getUint32(at + 8), 0x9e3779b1);
  const b = view.getUint32(at + 4) ^ Math.imul(view.getUint32(at + 12), 0x85ebca77);
  return { first: scramble(a ^ Math.imul(b, 0xc2b2ae3d)), step: (scramble(b ^ Math.imul(a, 0x27d4eb2f)) | 1) >>> 0 };
}

function scramble(value: number): number {
  let mixing = value;
  mixing = Math.imul(mixing ^ (mixing >>> 16), 0x85ebca6b);
  mixing = Math.imul(mixing ^ (mixing >>> 13), 0xc2b2ae35);
  return (mixing ^ (mixing >>> 16)) >>> 0;
}
