import { describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { parseSimpleContexts } from "./simple-contexts.ts";

describe("parseSimpleContexts()", () => {
  it("reads what coral writes", () => {
    const value = {
      current_context: "shop-dev",
      contexts: [
        { name: "shop-dev", colony_id: "shop-dev-1a2b3c" },
        {
          name: "far",
          colony_id: "far-prod-123456",
          endpoint: "colony.example.com:9000",
          ca_fingerprint: "4a".repeat(32),
          token_file: "/home/me/.coral/tokens/far.token",
        },
      ],
    };
    expect(parseSimpleContexts(`# head\n${stringify(value)}`)).toEqual(value);
  });

  it.each([
    "contexts: []\n",
    "contexts:\n",
    'current_context: "a"\n',
    "current_context: a # why\n",
    "current_context: true\n",
    "current_context: Null\n",
    "current_context: a\ncurrent_context: b\n",
    "contexts:\n- name: a\n",
    "contexts:\n  - name: 5\n",
    "contexts:\n  - name: a\n    name: b\n",
    "contexts:\n    name: a\n",
    "contexts:\n  - name: a: b\n",
    "contexts:\n  - {name: a}\n",
    "contexts:\n  - name: a\n\tcolony_id: b\n",
    "\uFEFFcontexts:\n  - name: a\n",
    "contexts:\r\n  - name: a\r\n",
    "[",
  ])("leaves %j to the YAML parser", (text) => {
    expect(parseSimpleContexts(text)).toBeUndefined();
  });

  it("never disagrees with the YAML parser", () => {
    let seed = 3;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((seed / 2 ** 31) * below);
    };
    const values = [
      "a",
      "b-1",
      "x.y:9",
      "1e5",
      "0x1f",
      "12",
      "true",
      "NO",
      "~",
      "a:b",
      "a: b",
      "/p/q",
      "/p:1",
      "-",
      "- a",
      "#",
      "'a'",
      "a#b",
      "a #b",
      "e:60",
      "inf",
      ".inf",
      "nan",
      "y",
      "*a",
      "&a",
      "a,b",
      `${"1e".repeat(32)}`,
      "2a".repeat(32),
      "1".repeat(64),
    ];
    const keys = ["name", "colony_id", "endpoint", "ca_fingerprint", "token_file"];
    let read = 0;
    for (let round = 0; round < 3_000; round++) {
      const lines = random(2) ? [`current_context: ${values[random(values.length)]}`] : [];
      lines.push("contexts:");
      for (let entry = random(3); entry >= 0; entry--) {
        lines.push(`  - name: ${values[random(values.length)]}`);
        for (let more = random(3); more > 0; more--) lines.push(`    ${keys[random(keys.length)]}: ${values[random(values.length)]}`);
      }
      const text = `${lines.join("\n")}\n`;
      const simple = parseSimpleContexts(text);
      if (simple === undefined) continue;
      read++;
      expect(parse(text), text).toEqual(simple);
    }
    expect(read).toBeGreaterThan(50);
  });
});
