import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { formatCommand, parseCommand, stageOfArgv } from "./parse-command.ts";

const words = (text: string): string[][] => parseCommand(text).map(({ argv }) => [...argv]);

describe("parseCommand()", () => {
  it.each<[string, string[][]]>([
    ["ps aux", [["ps", "aux"]]],
    ["  ps\taux  ", [["ps", "aux"]]],
    [
      "ps aux | grep node",
      [
        ["ps", "aux"],
        ["grep", "node"],
      ],
    ],
    [
      "ps aux|grep node|wc -l",
      [
        ["ps", "aux"],
        ["grep", "node"],
        ["wc", "-l"],
      ],
    ],
    ["grep 'a b' \"c d\"", [["grep", "a b", "c d"]]],
    ["grep 'a|b;c&d$e`f*'", [["grep", "a|b;c&d$e`f*"]]],
    ['grep "a|b;c&d*"', [["grep", "a|b;c&d*"]]],
    ["grep a\\ b", [["grep", "a b"]]],
    ["grep \\$HOME", [["grep", "$HOME"]]],
    ['grep "\\$HOME \\\\ \\" \\x"', [["grep", '$HOME \\ " \\x']]],
    ["grep ''", [["grep", ""]]],
    ["g'r'\"e\"p x", [["grep", "x"]]],
    ["curl -w %{time_total} http://localhost/", [["curl", "-w", "%{time_total}", "http://localhost/"]]],
    ["echo a=b", [["echo", "a=b"]]],
    ["echo a~b", [["echo", "a~b"]]],
    ["echo ü 日本", [["echo", "ü", "日本"]]],
  ])("reads %j", (text, expected) => {
    expect(words(text)).toEqual(expected);
  });

  it("parses stderr redirections", () => {
    expect(parseCommand("a 2>&1 | b 2>/dev/null | c >/dev/null")).toEqual([
      { argv: ["a"], dropStdout: false, dropStderr: false, stderrToStdout: true },
      { argv: ["b"], dropStdout: false, dropStderr: true, stderrToStdout: false },
      { argv: ["c"], dropStdout: true, dropStderr: false, stderrToStdout: false },
    ]);
  });

  it.each([
    "",
    " ",
    "|",
    "ps |",
    "| ps",
    "ps || id",
    "ps && id",
    "ps & id",
    "ps &",
    "ps; id",
    "ps ;",
    "ps\nid",
    "ps\r\nid",
    "ps\0id",
    "$(id)",
    "ps $(id)",
    'ps "$(id)"',
    "ps `id`",
    'ps "`id`"',
    "ps $HOME",
    "ps$" + "{IFS}aux",
    'ps "$HOME"',
    "ps $IFS",
    "$IFS",
    "ps > /tmp/x",
    "ps >/tmp/x",
    "ps >> /tmp/x",
    "ps 2>/tmp/x",
    "ps < /etc/passwd",
    "ps <(id)",
    "ps >(id)",
    "(ps)",
    "{ ps; }",
    "! ps",
    "ps *",
    "ps ?",
    "ps [a]",
    "ls ~",
    "ls ~root",
    "PATH=/tmp ps",
    "LD_PRELOAD=/tmp/x.so ps",
    "A+=1 ps",
    "ps #x",
    "ps 'x",
    'ps "x',
    "ps \\",
    "echo {a,b}",
    "echo {1..3}",
    "ps |& id",
    "ps\u00a0aux",
    "ps\u2028id",
    "ps \u202eaux",
    "p\u200bs",
    "ps \ufeff",
    "ps \ud800",
    "'' x",
    "ps 2>&3",
    "ps >&2",
    "ps 2>&1x",
    "ps\u0085id",
    "ps \u001b[2J",
    "2>&1 ps",
    "ps | | id",
    "ps|\t|id",
    "ps 2>&1>/tmp/x",
    "ps >/dev/null/../../tmp/x",
    "ps >/dev/nullx",
  ])("refuses %j", (text) => {
    expect(() => parseCommand(text)).toThrow(/^Cannot read the command: /);
  });

  it("enforces limits on programs, words and length", () => {
    expect(() => parseCommand(Array.from({ length: 17 }, () => "ps").join("|"))).toThrow("more than 16 programs");
    expect(() => parseCommand(`ps ${"a ".repeat(1_100)}`)).toThrow("more than 1024 words");
    expect(() => parseCommand("a".repeat(70_000))).toThrow("longer than");
  });

  it("reads back what formatCommand() writes", () => {
    const random = new SeededRandom(6);
    const alphabet = ["a", "B", " ", "'", '"', "\\", "$", "|", "&", ";", "*", "`", "{", ",", "}", "~", "#", "é", "<", ">", "(", "=", "-"];
    for (let round = 0; round < 500; round++) {
      const argv = Array.from({ length: 1 + random.below(4) }, (_, index) =>
        Array.from({ length: (index === 0 ? 1 : 0) + random.below(6) }, () => random.pick(alphabet)).join(""),
      );
      const stage = stageOfArgv(argv);
      expect(parseCommand(formatCommand([stage, stage]))).toEqual([stage, stage]);
    }
  });
});

describe("stageOfArgv()", () => {
  it("takes each word literally", () => {
    expect(stageOfArgv(["echo", "a|b", "$HOME", "", "x\ny"]).argv).toEqual(["echo", "a|b", "$HOME", "", "x\ny"]);
  });

  it.each([[[]], [[""]], [["a\0b"]], [["a", "b\0"]], [["p\u200bs"]], [["ps\n"]], [["a", "\ud800"]]])("refuses %j", (argv) => {
    expect(() => stageOfArgv(argv)).toThrow(/^Cannot read the command: /);
  });
});
