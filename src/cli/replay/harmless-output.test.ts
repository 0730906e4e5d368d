import { describe, expect, test } from "vitest";
import { HarmlessOutput } from "./harmless-output.ts";

const esc = "\u001b";
const filter = (text: string): string => new HarmlessOutput().filter(text);

describe("HarmlessOutput", () => {
  test.each([
    "plain text, grüße, 日本, 😀\r\n\t",
    `${esc}[31mred${esc}[0m`,
    `${esc}[38;5;196mcolour${esc}[38;2;1;2;3mrgb${esc}[4:3mcurly`,
    `${esc}[2J${esc}[H${esc}[10;20H${esc}[K${esc}[1;24r`,
    `${esc}[?1049h${esc}[?25l${esc}[?7l${esc}[?25h${esc}[?1049l`,
    `${esc}(0lqk${esc}(B`,
    `${esc}7${esc}8${esc}M${esc}=${esc}>`,
    `${esc}[2 q`,
    `${esc}[!p`,
  ])("passes sequences that draw: %j", (text) => {
    expect(filter(text)).toBe(text);
  });

  test.each([
    ["the title", `${esc}]0;rm -rf${"\u0007"}`],
    ["the clipboard", `${esc}]52;c;ZXZpbA==${esc}\\`],
    ["a link", `${esc}]8;;http://evil${esc}\\`],
    ["a question for its attributes", `${esc}[c${esc}[>c${esc}[=c${esc}[0c`],
    ["a question for the cursor", `${esc}[6n${esc}[?6n`],
    ["a question for its title", `${esc}[21t`],
    ["a question for a mode", `${esc}[?2026$p`],
    ["a question for its version", `${esc}[>q`],
    ["a device string", `${esc}P+q544e${esc}\\`],
    ["keys", `${esc}Pkeys${"\u0007"}`],
    ["a program command", `${esc}_Gf=100;AAAA${esc}\\`],
    ["reports of the mouse", `${esc}[?1000h${esc}[?1003;1006h${esc}[?2004h`],
    ["the keyboard protocol", `${esc}[>1u${esc}[=1;1u`],
    ["its identity", `${esc}Z`],
    ["a full reset", `${esc}c`],
    ["8-bit forms", "\u009d0;title\u009c\u0090x\u009c\u009b6n"],
    ["an enquiry", "\u0005"],
    ["printing", `${esc}[5i`],
  ])("drops sequences that set or query %s", (_what, text) => {
    expect(filter(`a${text}b`)).toBe("ab");
  });

  test("gives the same result for any chunking", () => {
    const text = `x${esc}[31my${esc}]52;c;AAAA${esc}\\z${esc}[6n${esc}[?1000hw${esc}P1;2|aa${esc}\\${esc}(Bv😀`;
    const whole = filter(text);
    expect(whole).toBe(`x${esc}[31myzw${esc}(Bv😀`);
    const output = new HarmlessOutput();
    expect(Array.from(text, (character) => output.filter(character)).join("")).toBe(whole);
  });

  test("does not buffer an endless sequence", () => {
    const output = new HarmlessOutput();
    output.filter(`${esc}[${"1;".repeat(1_000_000)}`);
    expect(output.filter("text")).toContain("text");
    expect(filter(`${esc}]${"x".repeat(1_000_000)}`)).toBe("");
  });

  test("never passes a sequence that makes a terminal reply, for any bytes", () => {
    let state = 7;
    const random = (below: number): number => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      return (state >>> 8) % below;
    };
    const pieces = [
      esc,
      "[",
      "]",
      "P",
      "6n",
      "c",
      "\\",
      "\u0007",
      "?",
      "1000h",
      ">",
      "52;",
      "x",
      "\u009b",
      "\u0018",
      " ",
      "q",
      "$p",
      "\u009d",
    ];
    for (let round = 0; round < 3_000; round++) {
      const text = Array.from({ length: 12 }, () => pieces[random(pieces.length)]).join("");
      const shown = filter(text);
      expect(shown.replaceAll("\u001b", "ESC")).not.toMatch(
        /ESC\[[0-9;?>=$ ]*[cnt]|ESC\]|ESCP|ESC_|ESCZ|[\u0080-\u009f]|ESC\[\?[0-9;]*1000h/,
      );
    }
  });
});
