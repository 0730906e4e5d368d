/** The mulberry32 generator: the same numbers for the same seed, 0..1. */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

const noise = [
  "\0",
  "\n",
  " ",
  "-1",
  "NaN",
  "1e999",
  "99999999999999999999999",
  "(",
  ")",
  ":",
  "[",
  "\\",
  "\u202e",
  "\ud800",
  "é",
  "/../",
  "0x10",
];

/** Damaged versions of real texts: truncated, repeated, or with noise inserted. The last ones are pure noise. */
export function* damagedTexts(texts: readonly string[], seed: number, count = 300): Generator<string> {
  const random = seededRandom(seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  for (let round = 0; round < count; round++) {
    let text = pick(texts);
    for (let step = 0; step < 4; step++) {
      const at = Math.floor(random() * (text.length + 1));
      const kind = random();
      if (kind < 0.3) text = text.slice(0, at);
      else if (kind < 0.7) text = text.slice(0, at) + pick(noise) + text.slice(at + Math.floor(random() * 4));
      else if (kind < 0.85) text = text.slice(at) + text.slice(0, at);
      else
        text = Array.from({ length: 40 }, () => (random() < 0.5 ? pick(noise) : String.fromCharCode(Math.floor(random() * 256)))).join("");
    }
    yield text;
  }
}
