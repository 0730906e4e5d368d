import { describe, expect, it } from "vitest";
import { cpuMsOf } from "../../base/cpu-time.fixture.ts";
import { LogTemplates } from "./log-templates.ts";
import { maskLogText } from "./mask-log-text.ts";

const masked = (text: string): string => maskLogText(text).join(" ");

describe("maskLogText()", () => {
  it.each([
    ["GET /users/42 took 12.5ms", "GET <path> took <num>ms"],
    ["user \"Ada L.\" said 'no', can't go", "user <str> said <str>, can't go"],
    ["id 4bf92f35-77b3-4da6-a3ce-929d0e0e4736 of 4bf92f3577b34da6", "id <id> of <id>"],
    ["connect to 10.0.0.7:5432 failed at 2026-11-15T09:44:41.123Z", "connect to <ip> failed at <time>"],
    ["peer fe80::1 and 2001:db8::8a2e:370:7334 gone", "peer <ip> and <ip> gone"],
    ["mail to ada@example.org via https://example.org/x?y=1", "mail to <email> via <url>"],
    ["worker-12 of pool 3/8 at 0xdeadbeef", "worker-<num> of pool <num>/<num> at <hex>"],
    ["open /var/lib/app/data.db: no such file", "open <path> no such file"],
    ['{"level":"info","msg":"took 5 ms","n":1}', "took <num> ms"],
    ['{"b":1,"a":2}', "{a b}"],
    ["\n\n  first line 1\n  at stack", "first line <num>"],
    ["", ""],
    ["   ", ""],
    ["ready", "ready"],
  ])("masks %j as %j", (text, expected) => {
    expect(masked(text)).toBe(expected);
  });

  it("bounds its result for texts of any length", () => {
    expect(maskLogText("word ".repeat(100_000))).toHaveLength(40);
    expect(masked("x".repeat(1_000_000))).toBe("<str>");
    const cpuMs = cpuMsOf(() => {
      for (const text of ["[".repeat(50_000), '"'.repeat(50_001), "a.".repeat(50_000), "/a".repeat(50_000), "1:".repeat(50_000)])
        maskLogText(text);
    });
    expect(cpuMs).toBeLessThan(2_000);
  });
});

describe("LogTemplates", () => {
  const names = ["ada", "bob", "cy", "dee", "eve", "fay", "gil", "hal", "ida", "jo"];

  it("keeps words with few values, and gives lines that differ in variable parts one id", () => {
    const templates = new LogTemplates();
    const texts = ["request 1 failed", "request 2 succeeded", "request 3 failed"].map((line) => templates.find("api", line)?.text);
    expect(texts).toEqual(["request <num> failed", "request <num> succeeded", "request <num> failed"]);
    expect(templates.find("api", "request 7 failed")?.id).toBe(templates.find("web", "request 8 failed")?.id);
    expect(templates.find("api", "request 7 failed")?.id).toMatch(/^[0-9a-f]{12}$/);
    expect(templates.find("api", " ")).toBeUndefined();
  });

  it("treats a word as variable after many values, and reports the merged templates", () => {
    const templates = new LogTemplates();
    const ids = names.slice(0, 8).map((name) => templates.find("api", `user ${name} logged in`)?.id);
    expect(new Set(ids).size).toBe(8);
    const merged = templates.find("api", "user ida logged in");
    expect(merged?.text).toBe("user <*> logged in");
    expect([...(merged?.replaces ?? [])].sort()).toEqual(ids.sort());
    expect(templates.find("api", "user ada logged in")?.id).toBe(merged?.id);
    expect(templates.find("api", "user jo logged in")?.id).toBe(merged?.id);
  });

  it("finds the same ids in another order", () => {
    const [one, other] = [new LogTemplates(), new LogTemplates()];
    for (const name of names) one.find("api", `user ${name} logged in`);
    for (const name of [...names].reverse()) other.find("api", `user ${name} logged in`);
    expect(one.find("api", "user x logged in")?.id).toBe(other.find("api", "user x logged in")?.id);
  });

  it("learns templates of another instance", () => {
    const templates = new LogTemplates();
    templates.learn("api", "user ada logged in");
    templates.learn("api", "user <*> logged in");
    templates.learn("api", "user bob logged in");
    expect(templates.find("api", "user ada logged in")?.text).toBe("user <*> logged in");
    expect(templates.find("web", "user ada logged in")?.text).toBe("user ada logged in");
  });

  it("stays bounded when every line is different", () => {
    const templates = new LogTemplates({ maxTemplates: 100, maxServices: 3, maxRemembered: 50 });
    const word = (index: number): string => index.toString().replace(/\d/g, (digit) => "abcdefghij"[Number(digit)] as string);
    const last = new Set<string>();
    for (let index = 0; index < 20_000; index++) {
      const found = templates.find(`service-${index % 7}`, `${word(index % 900)} ${word(index)} ${word(index * 7)} ${word(index * 13)}`);
      if (index > 10_000 && found) last.add(`${index % 7} ${found.text}`);
    }
    expect(last.size).toBeLessThan(7 * 1_000);
  });
});
