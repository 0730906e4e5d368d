import { describe, expect, test } from "vitest";
import { bounded, redactCommand } from "./redact-command.ts";

describe("redactCommand()", () => {
  test.each([
    ["ps aux", "ps aux"],
    ["mysql -phunter22 -e 'select 1'", "hunter22"],
    ["ps aux | mysql -phunter22", "hunter22"],
    ["ps|mysql -phunter22", "hunter22"],
    ["mysql -p'hunter 22 words' -e x", "22 words"],
    ["curl -u admin:hunter22 http://localhost/", "hunter22"],
    ["curl -H 'Authorization: Bearer hunter22hunter22' http://x", "hunter22"],
    ['curl -H "X-Api-Key: hunter22" http://x', "hunter22"],
    ["env PGPASSWORD=hunter22 psql", "hunter22"],
    ["redis-cli -a hunter22 info", "hunter22"],
    ["mysql --password 'hunter22' && ls", "hunter22"],
  ])("leaves no secret in %s", (command, secret) => {
    const shown = redactCommand(command);
    if (command === secret) expect(shown).toBe(command);
    else {
      expect(shown).not.toContain(secret);
      expect(shown).toContain("***");
    }
  });

  test("keeps the operators between programs of a pipeline", () => {
    expect(redactCommand("ps aux |grep x&& ls -l ; df")).toBe("ps aux | grep x && ls -l ; df");
  });

  test("limits the length, and never cuts a secret in half", () => {
    const long = redactCommand(`echo ${"x ".repeat(20_000)}`);
    expect(long.length).toBeLessThanOrEqual(4_096);
    const secret = "hunter".repeat(4_000);
    expect(redactCommand(`mysql --password=${secret}`)).not.toContain("hunter");
  });

  test("is idempotent", () => {
    const once = redactCommand("curl -u admin:hunter22 -H 'Authorization: Bearer abcdefabcdef' http://x | mysql -phunter22");
    expect(redactCommand(once)).toBe(once);
  });

  test("removes control characters", () => {
    expect(redactCommand("echo \u001b[31mred\u0007\nls")).not.toMatch(/\p{Cc}/u);
  });
});

test("bounded() limits text of any length and content to one line", () => {
  expect(bounded("plain", 10)).toBe("plain");
  expect(bounded("x".repeat(11), 10)).toBe(`${"x".repeat(9)}…`);
  expect(bounded("\u001b".repeat(1_000_000), 20).length).toBeLessThanOrEqual(20);
  expect(bounded("😀".repeat(100), 20)).not.toMatch(/\p{Cs}/u);
});
