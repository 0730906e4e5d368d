import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { sqlTemplate } from "../../redact/index.ts";
import { createSqlTemplater } from "./sql-templater.ts";

const parts = [
  ..."SELECT a b t1 t2 t10 FROM WHERE = ( ) , ; . - -- /* */ IN VALUES 1 22 0x1F 1e5 $1 $2 a$1 a$2 $$d$$ # \n é".split(" "),
  ...["'x'", "'it''s'", "'a\\'", '"q"', '"r"', '"it\'s"', '"', "`c`", "`o'c`", "`", "E'y'", "'unclosed", " "],
];

describe("createSqlTemplater()", () => {
  it.each(["postgres", "mysql"] as const)("returns the same as without a cache, in the dialect of %s", (dialect) => {
    const random = new SeededRandom(9);
    const templater = createSqlTemplater({ dialect, maxTemplates: 100_000 });
    for (let round = 0; round < 30_000; round++) {
      const text = `SELECT ${Array.from({ length: random.below(7) }, () => random.pick(parts)).join(random.pick(["", " "]))}`;
      const bytes = Buffer.from(text);
      const isCut = random.below(4) === 0;
      expect(templater(bytes, 0, bytes.length, isCut), text).toEqual(sqlTemplate(text, { dialect, isCut }));
    }
  });

  it("caches statements regardless of their literals, and clears the cache when it is full", () => {
    const templater = createSqlTemplater({ dialect: "mysql", maxTemplates: 2 });
    const ask = (text: string) => templater(Buffer.from(text), 0, text.length, false);
    const first = ask("SELECT a FROM t WHERE b = 'x' AND c = 12");
    expect(ask("SELECT a FROM t WHERE b = 'another' AND c = 7")).toBe(first);
    ask("SELECT 1");
    ask("SELECT a");
    expect(ask("SELECT a FROM t WHERE b = 'x' AND c = 12")).not.toBe(first);
  });
});
