import type { Readable } from "node:stream";
import { expect, test, vi } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { createSpawner } from "./spawner.ts";

async function textOf(stream: Readable): Promise<string> {
  let text = "";
  for await (const chunk of stream as AsyncIterable<Buffer>) text += chunk.toString("latin1");
  return text;
}

const isThere = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    // No such process.
    return false;
  }
};

test("createSpawner() passes the streams of a program without losing data", async () => {
  using spawner = createSpawner(silentLogger);
  for (let round = 0; round < 20; round++) {
    const { programs, stdin, stdout } = await spawner.start({
      programs: [["/bin/sh", "-c", 'cat; echo "$A" >&2; exit 3']],
      environment: { A: "b" },
    });
    stdin.end("hello");
    const [out, err] = await Promise.all([textOf(stdout), textOf(programs[0]!.stderr)]);
    expect([out, err, await programs[0]!.exited]).toEqual(["hello", "b\n", { code: 3, signal: null }]);
  }
});

test("createSpawner() loses no output of a program that exits before it is read", async () => {
  using spawner = createSpawner(silentLogger);
  const { programs, stdout } = await spawner.start({ programs: [["/bin/sh", "-c", "head -c 50000 /dev/zero; echo x"]], environment: {} });
  await programs[0]!.exited;
  expect(await textOf(stdout)).toHaveLength(50_002);
});

test("createSpawner() joins programs by pipes and reports how each ended", async () => {
  using spawner = createSpawner(silentLogger);
  const words: [string, ...string[]][] = [
    ["/bin/sh", "-c", "cat; echo first >&2; kill -TERM $$"],
    ["/usr/bin/tr", "a-z", "A-Z"],
  ];
  const { programs, stdin, stdout } = await spawner.start({ programs: words, environment: { PATH: "/usr/bin:/bin" } });
  stdin.end("hello".repeat(100_000));
  const [out, err] = await Promise.all([textOf(stdout), textOf(programs[0]!.stderr)]);
  expect(out).toBe("HELLO".repeat(100_000));
  expect(err).toBe("first\n");
  expect(await Promise.all(programs.map(({ exited }) => exited))).toEqual([
    { code: null, signal: "SIGTERM" },
    { code: 0, signal: null },
  ]);
});

test("createSpawner() gives a program only its own environment, and its own session", async () => {
  using spawner = createSpawner(silentLogger);
  const { programs, stdin, stdout } = await spawner.start({ programs: [["/usr/bin/env"]], environment: { ONLY: "this" } });
  stdin.end();
  expect(await textOf(stdout)).toBe("ONLY=this\n");
  const session = await spawner.start({
    programs: [["/bin/sh", "-c", "cut -d' ' -f6 /proc/$$/stat"]],
    environment: { PATH: "/usr/bin:/bin" },
  });
  expect(Number(await textOf(session.stdout))).toBe(session.programs[0]!.pid);
  await programs[0]!.exited;
});

test("createSpawner() starts no program if one of them cannot be started", async () => {
  using spawner = createSpawner(silentLogger);
  const words: [string, ...string[]][] = [["/bin/sleep", "97531"], ["/no/such/program"]];
  await expect(spawner.start({ programs: words, environment: {} })).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("Cannot start a command: "),
  });
  const next = await spawner.start({ programs: [["/bin/true"]], environment: {} });
  expect(await next.programs[0]!.exited).toEqual({ code: 0, signal: null });
});

test("createSpawner() reports programs as lost when its helper is killed, and starts another helper", async () => {
  using spawner = createSpawner(silentLogger);
  const { programs, stdout } = await spawner.start({
    programs: [["/bin/sh", "-c", "echo $PPID; exec sleep 97532"]],
    environment: { PATH: "/usr/bin:/bin" },
  });
  const helper = Number(await new Promise<Buffer>((resolve) => stdout.once("data", resolve)));
  process.kill(helper, "SIGKILL");
  expect(await programs[0]!.exited).toEqual({ code: null, signal: "SIGKILL" });
  process.kill(programs[0]!.pid, "SIGKILL");
  const next = await spawner.start({ programs: [["/bin/true"]], environment: {} });
  expect(await next.programs[0]!.exited).toEqual({ code: 0, signal: null });
});

test("createSpawner() stops its helper when it is closed", async () => {
  const spawner = createSpawner(silentLogger);
  const { programs, stdout } = await spawner.start({ programs: [["/bin/sh", "-c", "echo $PPID"]], environment: {} });
  const helper = Number(await textOf(stdout));
  await programs[0]!.exited;
  expect(isThere(helper)).toBe(true);
  spawner[Symbol.dispose]();
  await vi.waitFor(() => expect(isThere(helper)).toBe(false));
});

test("createSpawner() starts no new helper once it is disposed", async () => {
  const spawner = createSpawner(silentLogger);
  spawner[Symbol.dispose]();
  await expect(spawner.start({ programs: [["/bin/true"]], environment: {} })).rejects.toThrow("the agent is shutting down");
});
