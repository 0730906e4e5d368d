import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { MalformedError } from "../columns/protobuf-reader.ts";
import { unpackZstd, zstdContentBound } from "./unpack-zstd.ts";
import { zstdBlockHeader, zstdRepeated, zstdStored } from "./zstd.fixture.ts";

const maxBytes = 1_000_000;

const longText = Buffer.from(
  Array.from({ length: 400 }, (_, index) => `span ${index} of service checkout took ${(index * 7) % 13} ms\n`).join(""),
);

/** By zstd 1.5: `printf … | zstd -c | base64`. */
const samples: readonly [string, string, Buffer][] = [
  ["a short text", "KLUv/QRYWQAAaGVsbG8sIHpzdGR4liE8", Buffer.from("hello, zstd")],
  ["an empty body", "KLUv/SQAAQAAmenYUQ==", Buffer.alloc(0)],
  [
    "a long text",
    "KLUv/QRYxRsAppItGJA1aQPIIrRuH6Pattjdisju3ikl1r8U4C8AIgAlAM1i2+vU2moS9m5ZJnx9JQcCogyKgQwpHEeCJAiOQmEEFMQoBAoGjEIADjLkQECUV1ZVVC9XayoJ6cioiOhkKg3l8Xd7nf77/TyNPpvL5LprO0n5dDYnExEPDQsJj8biYB7enV0d3c/Xm0tDOzMrI7vZamNZWAGDYiDt/////9/22LZt26W2zSlOO73pTG06rek0E/PSsgKC0qhSbr7/b+INIwLCiOADEtjCoVUE/wzGmuL4xaKrnopWZ3B5f/Ukw+ocqs1WfS2tjuHk/urJhtU5VCut+la2OsNJ+9UrjVbnyFaq6mtpdY6VdldPOqzOsdlU1ZfS6hov7q6eZFidR7fRqi8lq7PcnF89yWB1jm2nVZ9KVmd46V59lK5u+LD6ybF63VU3YtWbfKp++Ksu2laPSKvHmqsj/dUj9tWj+KvnzlYnuW246lVldQ4L11evFKyOc7PwqqfV6gwerF89aVgdx27BVU+r1Tm4mL56srA6ntWGqx7VVmdycH31SNHqOLcFr3pKrc7hofrVk4TVcW4XVvW0Wh3Dw7WrJwur49gtuepJbatjwtUn2NVTyaoiIF69yV0d+mX1w2n1WlU3hKo3+VT9eFddlFaPhVs9XPWM6t6p86VOhrr96alvOsJ0vEufZqWLknR3pCOOHo3eLjr/oedCtwzotp+r8Dmkeo47PE93btd5JucJ51nanF3zp5nTZG5LzAGCORZ8eevyuOU3lkdWjplyLsqfNbkqOS0kF4SRY0Pk6pDnII8+/vI4ThynG/cu41qMq1wcpCyOOhVfKa6feCbxKOJZPpzl8CeG8xaupcIBSjgWQHh78ME7I7zgiOA5CLwe8IUJwPwbwPB3bNqbKNZK+4/Kb+i23l10htOKAfJUYkCeRwyCpw4D8rxhZN1rEGrE/MGuugcIRCyMcyrx5/5a/Ou1NLvZ7KSxM/7afvTtZXSeEzlO4j8t//v2Mq7lKhtd9Hemvz36chfy6iIa/4n5T+w9mft5dRFzfzX9nXV31NscarEZf22/Qo91ECYj/NAWAME5n5jACXkzDwg0PlkHBppknnUXUDvM+3vAs/0C8ay+QDzPFzRP7TVQCwDzKOc3HqAIn+lyHNcHmIQyNdzsQWYFNR+6qVBjUzIUOrUC00SEfg==",
    longText,
  ],
  [
    "a long text of level 19, without a checksum",
    "KLUv/QBoNA4AhmNIGJAn1RzInn9Hhl9t7d3t3N3d3XvMulMBDk4AQgA4ADUqIhoSmoJycHpj0xqazsg8MSkoJyYlJRmpyNKQHL/tmp5Nlr/6J2G/sSwhnOUuOBBo1MBgOOgBAoMBoSCA0AJhQIIDhUMDGBotAMDAIVtcMcUTV+LjRpxZzEvLSspJyTOyiYg9NGwh4aDgGJiHd1e7utLNVe6LS0M7Mysj65hYt7BmYV1ZVVFNSV2NSirSUTfqpJE+2uiiiR5a6E4H3Zxx7s0210zzzDI/x5xyUT65JpdckkcWeTnkfPx7+9bTd16+f3zGGF8ElHdyyXseeRNH/HDDCyd8cMHHG3jexfvu2l033XPL/R132mj3bLNbNtkdW+ztsLPG+mqrqy7VU1fqK4DPqBFgXJ73fwOgFZU8EkgQEBH8DyL4/s9eo5cv+gp/vuZ4+OlbXqZnL9ObF32JP19zbPy0L0/Ts4ENkAQQ/lf/3t/yl/tdv+YX8ev7Wvtaz/b6edoTx4/XHT/6vK558fR1rssnT/ecLp27p+tJz+f58mQ8heffqTvfTrLz64QkfwhlP/Fr8QiRvCLqEx/4xdQm+cWsJfmNqSX5CzBBEcBWAcULADZpSArA5Rjlli35K2AcQgBHAEEABgEBMAYKjAEK8DasbS0t2Dfc2ZA9jaCmpaRAV3VUNG4MY9hYY9AIxtBxRhlPDKKJUSKJAcTFUBxRxLsJN3ZTN3QTZ51BJzjj03NOOS8YghasIAUDBA+GwQmGBM8MppllkgnMTc0YU8y4MpRhZZVUgvLSckopj4xAGhlFEhmAnJQcUsgDBqABCwQBHAYucBAYgAcLHrCA78PbRz19gP/Dn5c/D25eTg48dj3GxePmt7lmmsH87DxzyHxyBNnkKJlkIC8rjyzyneEMC3eHO+yum25wf3vPLfeFI4QtHBWmcIDwYcMTlvDZwTa77CAb2LGtHWOLfXWora6aalBfh/XUIfXREWijiyYa0NPSQwsdBw6Az6ggRAA/8Nk7ElhB4H8FAQWB/v1fn3v+c/r/67nrP6f/v553/fP0JFu2gFv1+3n6v+u595+n/7+e9/7x9P/bc+8/Tv9/PXfeSgAAVr//c+87S8A=",
    longText,
  ],
  ["999,999 equal bytes", "KLUv/QRYVAAAEGFhAQD7/znAAgIAEGECABBhAgAQYQIAEGECABBhAgAQYfsRCmGDL+S5", Buffer.alloc(999_999, "a")],
];

describe("unpackZstd()", () => {
  it.each(samples)("reads %s", (_what, packed, wanted) => {
    expect(unpackZstd(Buffer.from(packed, "base64"), maxBytes)).toEqual(wanted);
  });

  it("reads consecutive frames, and skips skippable ones", () => {
    const [, packed = "", wanted] = samples[0] ?? [];
    const frame = Buffer.from(packed, "base64");
    const skipped = Buffer.from([0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    expect(unpackZstd(Buffer.concat([skipped, frame, frame]), maxBytes)).toEqual(Buffer.concat([wanted ?? frame, wanted ?? frame]));
  });

  it("stops at the limit", () => {
    const repeated = zstdRepeated(2);
    expect(repeated).toHaveLength(14);
    expect(unpackZstd(repeated, 262_144)?.length).toBe(262_144);
    expect(unpackZstd(repeated, 262_143)).toBeNull();
    expect(zstdContentBound(repeated, maxBytes)).toBe(262_144);
    const stored = Buffer.alloc(300_000, "b");
    expect(unpackZstd(zstdStored(stored), maxBytes)).toEqual(stored);
  });

  it.each<[string, Buffer]>([
    ["is empty", Buffer.alloc(0)],
    ["has no magic number", Buffer.from("hello, world")],
    ["is truncated", Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0x58])],
    ["is truncated", Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, ...zstdBlockHeader(5, 0, true), 1])],
    ["needs a dictionary", Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 1, 0x58, 0, ...zstdBlockHeader(0, 0, true)])],
    ["its window of 2147483648 bytes is larger", Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0xa8, ...zstdBlockHeader(0, 0, true)])],
    ["its content is too large", Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xff, 0xff, 0xff, 0x7f, ...zstdBlockHeader(0, 0, true)])],
    ["a block is not valid", Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, ...zstdBlockHeader(1, 3, true), 1])],
  ])("refuses a body: %s", (why, body) => {
    expect(() => unpackZstd(body, maxBytes)).toThrow(MalformedError);
    expect(() => unpackZstd(body, maxBytes)).toThrow(why);
  });

  it("decompresses or refuses damaged bodies within the limit", () => {
    const random = new SeededRandom(3);
    for (let round = 0; round < 3_000; round++) {
      const [, packed] = random.pick(samples);
      const body = Buffer.from(packed, "base64");
      for (let count = 1 + random.below(4); count > 0; count--) body[4 + random.below(body.length - 4)] = random.below(256);
      try {
        expect(unpackZstd(body, maxBytes)?.length ?? 0).toBeLessThanOrEqual(maxBytes);
      } catch (error) {
        expect(error).toBeInstanceOf(MalformedError);
      }
    }
  });
});
