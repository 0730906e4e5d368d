import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { left, never, noHold, type TestRunner, testOrder, useRunners } from "../command-runner.fixture.ts";

const runners = useRunners();
const { create } = runners;

describe("terminals", () => {
  const terminal = { columns: 100, rows: 30, type: "xterm-256color" };

  it("support resizing, colours and signal keys", async () => {
    const { runner } = create();
    const { running, ended, recording } = await runner.start(testOrder({ kind: "shell", argv: ["/bin/sh"], terminal }), never, noHold);
    let output = "";
    const seen = (async () => {
      for await (const { data } of running.output()) output += Buffer.from(data).toString();
    })();
    const type = (text: string): Promise<void> => running.write(Buffer.from(text));
    await type("stty size; test -t 0 && echo is-a-tty $TERM\n");
    await expect.poll(() => output).toContain("30 100");
    await expect.poll(() => output).toContain("is-a-tty xterm-256color");
    running.resize(120, 40);
    await type("stty size\n");
    await expect.poll(() => output).toContain("40 120");
    await type("sleep 1000; echo after-sleep=$?\n");
    // Wait for the program before each key: a key that arrives before the program started interrupts nothing, and discards what is typed right after it.
    const keys = ["\x03", "printf '\\033[31mred\\033[0m\\n'\n"];
    let pressed = 0;
    const interrupted = async (): Promise<string> => {
      await type(keys[pressed++ % 2] ?? "");
      return output;
    };
    await expect.poll(interrupted, { interval: 400 }).toContain("\x1b[31mred\x1b[0m");
    expect(output).toContain("^C");
    // The last key may have been an interrupt.
    const leaving = setInterval(() => void type("exit 3\n"), 300);
    expect(await ended.finally(() => clearInterval(leaving))).toMatchObject({ exitCode: 3, reason: "exited" });
    await seen;
    await checkRecording(runner, recording);
  });

  async function checkRecording(runner: TestRunner["runner"], name: string): Promise<void> {
    const parts: Uint8Array[] = [];
    for await (const part of runner.readRecording(name)) parts.push(part);
    const lines = Buffer.concat(parts)
      .toString()
      .trimEnd()
      .split("\n")
      .map((line): unknown => JSON.parse(line));
    expect(lines[0]).toMatchObject({ version: 2, width: 100, height: 30, env: { TERM: "xterm-256color" } });
    const events = lines.slice(1) as [number, string, string][];
    expect(events.some(([, kind, data]) => kind === "r" && data === "120x40")).toBe(true);
    expect(
      events
        .filter(([, kind]) => kind === "o")
        .map(([, , data]) => data)
        .join(""),
    ).toContain("\x1b[31mred\x1b[0m");
    expect(events.every(([at], index) => at >= (events[index - 1]?.[0] ?? 0))).toBe(true);
  }

  it("show full-screen programs", async () => {
    const { runner } = create();
    const { running, ended } = await runner.start(testOrder({ kind: "exec", argv: ["top"], terminal }), never, noHold);
    let output = "";
    const seen = (async () => {
      for await (const { data } of running.output()) output += Buffer.from(data).toString();
    })();
    await expect.poll(() => output).toContain("Tasks:");
    await running.write(Buffer.from("q"));
    expect(await ended).toMatchObject({ exitCode: 0 });
    await seen;
  });

  it.runIf(existsSync("/usr/bin/vi"))("support an editor, including resizing", async () => {
    const { runner } = create();
    const file = join(runners.directory, "edited");
    const { running, ended } = await runner.start(testOrder({ kind: "exec", argv: ["vi", "-u", "NONE", file], terminal }), never, noHold);
    let output = "";
    const seen = (async () => {
      for await (const { data } of running.output()) output += Buffer.from(data).toString();
    })();
    await expect.poll(() => output).toContain("edited");
    output = "";
    running.resize(60, 15);
    await running.write(Buffer.from("ihello from a script\x1b"));
    await expect.poll(() => output).toContain("script");
    await running.write(Buffer.from(":set lines? columns?\r"));
    await expect.poll(() => output).toMatch(/lines=15[\s\S]*columns=60/);
    await running.write(Buffer.from("\r:wq\r"));
    expect(await ended).toMatchObject({ exitCode: 0 });
    await seen;
    expect(await readFile(file, "utf8")).toBe("hello from a script\n");
  });

  it("kill everything in them when the caller disconnects", async () => {
    const { runner } = create();
    const caller = new AbortController();
    const order = testOrder({ kind: "shell", argv: ["/bin/sh"], terminal });
    const { running, ended } = await runner.start(order, caller.signal, noHold);
    let output = "";
    const seen = (async () => {
      for await (const { data } of running.output()) output += Buffer.from(data).toString();
    })();
    await running.write(Buffer.from("trap '' HUP; setsid sleep 1000 & echo star''ted\n"));
    await expect.poll(() => output).toContain("started");
    caller.abort();
    expect(await ended).toMatchObject({ reason: "cancelled" });
    await seen;
    expect(left(order.commandId)).toEqual([]);
  });

  it("end with their input, even if it closes early", async () => {
    for (const argv of [["bash", "--norc", "-i"], ["/bin/sh"]]) {
      const { exitCode, stdout } = await create().run({ kind: "shell", argv, terminal, timeoutMs: 20_000 }, "echo he''llo\n");
      expect(exitCode, argv.join(" ")).toBe(0);
      expect(stdout).toContain("hello");
    }
    expect(await create().run({ kind: "shell", argv: ["bash", "--norc", "-i"], terminal, timeoutMs: 20_000 })).toMatchObject({
      exitCode: 0,
    });
  });

  it("do not hang up on a program that closes its descriptors before it exits", async () => {
    const argv = ["/bin/sh", "-c", "echo said; exec <&- >&- 2>&-; sleep 0.3; exit 7"];
    expect(await create().run({ kind: "shell", argv, terminal, timeoutMs: 20_000 }, "")).toMatchObject({ reason: "exited", exitCode: 7 });
  });

  it("reject pipelines; shells require a terminal", async () => {
    await expect(create().run({ text: "ls | cat", terminal })).rejects.toThrow("pipeline at a terminal");
    await expect(create().run({ kind: "shell", argv: ["/bin/sh"] })).rejects.toThrow("without a terminal");
  });

  it("keep no recording if disabled, and delete expired ones", async () => {
    const { runner } = create({ recordings: { enabled: false, maxSizeBytes: 1024 ** 2, maxAgeMs: 1_000 } });
    const { recording, ended, running } = await runner.start(
      testOrder({ kind: "shell", argv: ["/bin/sh", "-c", "true"], terminal }),
      never,
      noHold,
    );
    running.drain();
    await ended;
    expect(recording).toBe("");
    await expect(runner.readRecording("../../etc/passwd").next()).rejects.toThrow("Cannot read recording");
    await expect(runner.readRecording(`${randomUUID()}.cast`).next()).rejects.toThrow("Cannot read recording");
  });
});
