import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { createTestRunner } from "../command-runner.fixture.ts";
import { diagnosticPrograms } from "./profiles/diagnostic-programs.ts";
import { searchPath } from "./resolve-program.ts";

/** Long options listed in a program's help. */
function optionsOf(path: string): string[] {
  try {
    const help = execFileSync(path, ["--help"], { encoding: "utf8", timeout: 2_000, stdio: ["ignore", "pipe", "pipe"] });
    return [...new Set(help.match(/(?<![\w-])--?[a-zA-Z][\w-]*/g) ?? [])];
  } catch {
    // No help, or help exits with an error.
    return [];
  }
}

const secret = "a secret in a file that the profile does not show";
const rounds = Number(process.env["CORAL_FUZZ_ROUNDS"] ?? 200);

it("under the read-only profile, no random mix of a program's options writes a file or shows a protected one", {
  timeout: 900_000,
}, async () => {
  const directory = await mkdtemp(join(tmpdir(), "coral-fuzz-"));
  await chmod(directory, 0o777);
  const secretFile = join(directory, "secret");
  await writeFile(secretFile, `${secret}\n${secret}\n`, { mode: 0o644 });
  const canary = join(directory, "canary");
  await using runner = createTestRunner({ profile: "diagnostics", timeoutMs: 400, maxOutputBytes: 200_000 }, join(directory, "r"));
  const random = new SeededRandom(Number(process.env["CORAL_FUZZ_SEED"] ?? 2));
  const slow = new Set([
    "tcpdump",
    "strace",
    "tail",
    "ping",
    "traceroute",
    "tracepath",
    "find",
    "du",
    "top",
    "vmstat",
    "iostat",
    "mpstat",
    "pidstat",
  ]);
  const programs = Object.keys(diagnosticPrograms).flatMap((name) => {
    const path = searchPath.map((place) => join(place, name)).find((candidate) => existsSync(candidate));
    return path === undefined || slow.has(name) ? [] : [{ name, options: optionsOf(path) }];
  });
  expect(programs.length).toBeGreaterThan(20);
  const values = [
    secretFile,
    canary,
    `@${secretFile}`,
    `file://${secretFile}`,
    `x=${canary}`,
    directory,
    "1",
    "-",
    "x",
    "/etc/hosts",
    "/var/log",
    "http://127.0.0.1:1/",
    `../../..${secretFile}`,
    `kernel/../../..${secretFile}`,
    `+f`,
    "show",
    "list",
    "=",
    "*",
    `|touch ${canary}`,
    `$(touch ${canary})`,
  ];
  const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const argument = (options: readonly string[]): string => {
    const kind = random.below(10);
    const value = random.pick(values);
    if (kind < 3) return value;
    if (kind < 5) return `-${random.pick([...letters])}`;
    if (kind < 6) return `-${random.pick([...letters])}${random.pick([...letters])}`;
    if (kind < 7) return `-${random.pick([...letters])}${value}`;
    const option = options.length === 0 ? `--${random.pick(["file", "output", "config"])}` : random.pick(options);
    return kind < 9 ? option : `${option}=${value}`;
  };
  let ran = 0;
  for (let round = 0; round < rounds; round++) {
    const { name, options } = random.pick(programs);
    const argv = [name, ...Array.from({ length: random.below(4) }, () => argument(options))];
    const result = await runner.run({ argv }).catch((error: unknown) => error);
    if (result instanceof CoralError) continue;
    ran++;
    const { stdout, stderr } = result as { stdout: string; stderr: string };
    expect(stdout + stderr, argv.join(" ")).not.toContain(secret);
    expect(
      (await readdir(directory)).filter((file) => file !== "secret"),
      argv.join(" "),
    ).toEqual([]);
  }
  expect(ran).toBeGreaterThan(20);
  if (process.env["CORAL_FUZZ_ROUNDS"]) process.stdout.write(`ran ${ran} of ${rounds}\n`);
  await rm(directory, { recursive: true });
});
