/** The fixed tables of HPACK: RFC 7541, appendices A and B. */

/** Names and values, from index 1 on; entries without a value end with the name. */
const staticText = `:authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|:status 200|:status 204|:status 206|:status 304
|:status 400|:status 404|:status 500|accept-charset|accept-encoding gzip, deflate|accept-language|accept-ranges|accept|access-control-allow-origin
|age|allow|authorization|cache-control|content-disposition|content-encoding|content-language|content-length|content-location|content-range
|content-type|cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|link
|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|server|set-cookie|strict-transport-security
|transfer-encoding|user-agent|vary|via|www-authenticate`;

export interface StaticEntry {
  name: string;
  value: string;
}

export const staticEntryCount = 61;

let staticEntries: readonly StaticEntry[] | undefined;

/** Index 0 of the result is index 1 of HPACK. */
export function staticTable(): readonly StaticEntry[] {
  staticEntries ??= staticText.split("|").map((entry) => {
    const [name = "", ...value] = entry.trim().split(" ");
    return { name, value: value.join(" ") };
  });
  return staticEntries;
}

/** Symbols of the Huffman code by length of their codes. The code is canonical, so lengths and order define it. */
const symbolsByLength: readonly (readonly [bits: number, symbols: string])[] = [
  [5, "48-50 97 99 101 105 111 115-116"],
  [6, "32 37 45-47 51-57 61 65 95 98 100 102-104 108-110 112 114 117"],
  [7, "58 66-87 89 106-107 113 118-122"],
  [8, "38 42 44 59 88 90"],
  [10, "33-34 40-41 63"],
  [11, "39 43 124"],
  [12, "35 62"],
  [13, "0 36 64 91 93 126"],
  [14, "94 125"],
  [15, "60 96 123"],
  [19, "92 195 208"],
  [20, "128 130-131 162 184 194 224 226"],
  [21, "153 161 167 172 176-177 179 209 216-217 227 229-230"],
  [22, "129 132-134 136 146 154 156 160 163-164 169-170 173 178 181 185-187 189-190 196 198 228 232-233"],
  [23, "1 135 137-141 143 147 149-152 155 157-158 165-166 168 174-175 180 182-183 188 191 197 231 239"],
  [24, "9 142 144-145 148 159 171 206 215 225 236-237"],
  [25, "199 207 234-235"],
  [26, "192-193 200-202 205 210 213 218-219 238 240 242-243 255"],
  [27, "203-204 211-212 214 221-223 241 244-248 250-254"],
  [28, "2-8 11-12 14-21 23-31 127 220 249"],
  [30, "10 13 22 256"],
];

export interface HuffmanTable {
  /** By the next 8 bits: symbol and length of the code, as `symbol << 4 | bits`; 0 when the code is longer. */
  short: Uint16Array;
  /** For each length: first code, number of codes, where its symbols start. */
  lengths: readonly { bits: number; firstCode: number; count: number; firstSymbol: number }[];
  symbols: Uint16Array;
}

/** The end-of-string symbol, which must not occur in a string. */
export const endOfString = 256;

let huffman: HuffmanTable | undefined;

export function huffmanTable(): HuffmanTable {
  huffman ??= buildHuffman();
  return huffman;
}

function buildHuffman(): HuffmanTable {
  const short = new Uint16Array(256);
  const symbols: number[] = [];
  const lengths: { bits: number; firstCode: number; count: number; firstSymbol: number }[] = [];
  let code = 0;
  let lastBits = 0;
  for (const [bits, text] of symbolsByLength) {
    code *= 2 ** (bits - lastBits);
    lastBits = bits;
    const firstSymbol = symbols.length;
    for (const range of text.split(" ")) {
      const [from = 0, to = from] = range.split("-").map(Number);
      for (let symbol = from; symbol <= to; symbol++) symbols.push(symbol);
    }
    const count = symbols.length - firstSymbol;
    lengths.push({ bits, firstCode: code, count, firstSymbol });
    for (let index = 0; bits <= 8 && index < count; index++) {
      const start = (code + index) << (8 - bits);
      short.fill(((symbols[firstSymbol + index] ?? 0) << 4) | bits, start, start + (1 << (8 - bits)));
    }
    code += count;
  }
  return { short, lengths, symbols: Uint16Array.from(symbols) };
}
