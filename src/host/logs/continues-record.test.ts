import { describe, expect, it } from "vitest";
import { continuesRecord, mayBeUnfinished } from "./continues-record.ts";

/** Splits a text into lines and expected records; a line of dashes separates records. */
function records(text: string): { lines: string[]; wanted: string[] } {
  const wanted = text
    .trim()
    .split("\n---\n")
    .map((record) =>
      record
        .split("\n")
        .filter((line) => line.trim() !== "")
        .join("\n"),
    );
  return { lines: wanted.flatMap((record) => record.split("\n")), wanted };
}

const cases: [string, string][] = [
  [
    "a Java trace with causes",
    `2026-01-01 10:00:00 ERROR [main] c.e.Shop - checkout failed
java.lang.IllegalStateException: no stock
\tat com.example.Shop.sell(Shop.java:42)
\tat com.example.Main.main(Main.java:7)
Caused by: java.sql.SQLException: closed
\tat com.example.Db.read(Db.java:3)
\t... 12 more
---
2026-01-01 10:00:01 INFO [main] c.e.Shop - next`,
  ],
  [
    "an uncaught Java exception",
    `10:00:00 INFO started
---
Exception in thread "main" java.lang.NullPointerException
\tat Main.main(Main.java:3)
---
10:00:01 INFO next`,
  ],
  [
    "a Python trace with its last line, and a chain of two",
    `2026-01-01 10:00:00,123 ERROR app failed
Traceback (most recent call last):
  File "/app/a.py", line 3, in f
    g()
    ~^^
ValueError: bad value: 3
During handling of the above exception, another exception occurred:
Traceback (most recent call last):
  File "/app/b.py", line 9, in h
    raise shop.Empty
shop.errors.Empty
---
2026-01-01 10:00:00,124 INFO app next`,
  ],
  [
    "an uncaught Python exception after an unrelated line",
    `INFO served /a
---
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    1/0
ZeroDivisionError: division by zero
---
restarting: now`,
  ],
  [
    "a Go panic",
    `panic: runtime error: index out of range [3] with length 3

goroutine 1 [running]:
main.pick({0xc000012345, 0x3}, 0x3)
\t/app/main.go:12 +0x1d
main.main()
\t/app/main.go:7 +0x2a
exit status 2
---
2026/01/01 10:00:00 listening`,
  ],
  [
    "what net/http logs of a panic, and code that recovers from one",
    `2026/01/01 10:00:00 http: panic serving 10.0.0.9:54311: no stock
goroutine 34 [running]:
net/http.(*conn).serve.func1()
\t/usr/local/go/src/net/http/server.go:1898 +0xbe
panic({0x6a2b00?, 0x7d5f60?})
\t/usr/local/go/src/runtime/panic.go:770 +0x132
created by net/http.(*Server).Serve in goroutine 1
\t/usr/local/go/src/net/http/server.go:3285 +0x4b4
---
2026/01/01 10:00:00 listening
---
2026/01/01 10:00:01 recovered: no stock
goroutine 7 [running]:
runtime/debug.Stack()
\t/usr/local/go/src/runtime/debug/stack.go:26 +0x5e
---
2026/01/01 10:00:02 next`,
  ],
  [
    "a PHP trace",
    `[01-Jan-2026 10:00:00 UTC] PHP Fatal error:  Uncaught RuntimeException: no stock in /app/shop.php:12
Stack trace:
#0 /app/shop.php(7): sell()
#1 {main}
  thrown in /app/shop.php on line 12
---
[01-Jan-2026 10:00:01 UTC] next
---
#3 is a comment`,
  ],
  [
    "a Rust panic",
    `thread 'main' panicked at src/main.rs:2:5:
no stock
note: run with \`RUST_BACKTRACE=1\` environment variable to display a backtrace
---
served /a`,
  ],
  [
    "an error of Node with properties, and JSON over several lines",
    `Error: no stock
    at f (/app/a.js:1:2) {
  code: 'E_STOCK',
  details: { left: 0 }
}
---
{
  "level": "info"
}
---
}`,
  ],
  [
    "a Node error",
    `TypeError: Cannot read properties of undefined
    at f (/app/a.js:1:2)
    at node:internal/main:3:4
---
server started`,
  ],
  [
    "lines that only resemble a trace",
    `ERROR one
---
ERROR two
---
ValueError: not after a trace
---
INFO fine
---
com.example.QuietException: after a line that is no problem
---
main.start() called`,
  ],
];

describe("continuesRecord()", () => {
  it.each(cases)("keeps %s together", (_what, text) => {
    const { lines, wanted } = records(text);
    const found: string[] = [];
    for (const line of lines) {
      const last = found.at(-1);
      if (last !== undefined && continuesRecord(last, line)) found[found.length - 1] = `${last}\n${line}`;
      else found.push(line);
    }
    expect(found).toEqual(wanted);
  });

  it("takes linear time for long lines", () => {
    const long = `panic: ${"a.".repeat(30_000)}`;
    const before = process.cpuUsage();
    for (const line of [`${"a.".repeat(30_000)}`, `${"a(".repeat(30_000)}`, `${"$.".repeat(30_000)}x`]) continuesRecord(long, line);
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(2_000);
  });
});

it("mayBeUnfinished() is true for problems and for records of several lines", () => {
  expect(["INFO fine", "ERROR x", "a\n b", "Traceback (most recent call last):"].map(mayBeUnfinished)).toEqual([false, true, true, true]);
});
