/** Events about the process and the executable of a service. */

import { copyFileSync, existsSync, mkdtempSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { DaemonProcess } from "../support/daemon.ts";
import { freePort } from "../support/held-port.ts";
import { runCoral } from "../support/run-coral.ts";
import { WatchedHost } from "../support/watched-host.ts";

const perl = "/usr/bin/perl";
const server = `use IO::Socket::INET;
my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 5, ReuseAddr => 1) or die;
while (my $c = $s->accept) { close $c }`;

// New daemons with each test: events of an earlier test would count too.
let host: WatchedHost;
let directory: string;
beforeEach(async (context) => {
  context.skip(!existsSync(perl), `needs ${perl}`);
  directory = mkdtempSync(join(tmpdir(), "coral-life-"));
  host = await WatchedHost.start();
});
afterEach(async () => {
  await host?.[Symbol.asyncDispose]();
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
});

/** Another build of a program: the same bytes except for the 20 bytes of the build-id. */
function copyWithBuild(target: string, build: string, to: string): void {
  const bytes = readFileSync(realpathSync(perl));
  const at = bytes.indexOf(Buffer.from(build, "hex"));
  if (at < 0) throw new Error(`no build-id ${build} in ${perl}`);
  Buffer.from(to, "hex").copy(bytes, at);
  writeFileSync(target, bytes, { mode: 0o755 });
}

describe("the lifecycle of a service", () => {
  it("is reported: new executable on disk, restart with it, exit", async () => {
    const program = join(directory, "gate");
    const [port, other] = [await freePort(), "0123456789abcdef0123456789abcdef01234567"];
    copyFileSync(realpathSync(perl), program);
    const start = (): DaemonProcess => host.spawn([program, "-e", server, String(port)]);

    const first = start();
    const found = await host.waitForProcess(port, first.pid);
    const { build } = found;
    expect(found.service).toMatchObject({ service: "gate", namedBy: "executable", instances: 1 });
    expect(found).toMatchObject({ exe: program, buildKind: "build-id" });

    copyWithBuild(`${program}.new`, String(build), other);
    renameSync(`${program}.new`, program);
    const replaced = await host.waitForEvent("binary-updated", "gate");
    expect(replaced.details).toMatchObject({ where: "disk", before: { pid: first.pid, build }, after: { pid: first.pid, build: other } });

    await first.kill("SIGKILL");
    const second = start();
    const restarted = await host.waitForEvent("service-restarted", "gate");
    expect(restarted.details).toMatchObject({ before: { pid: first.pid, build }, after: { pid: second.pid } });
    const updated = await host.waitForEvent("binary-updated", "gate", 2);
    expect(updated.details).toMatchObject({ where: "process", before: { build }, after: { pid: second.pid, build: other } });
    expect((await host.waitForProcess(port, second.pid)).build).toBe(other);

    await second.kill("SIGKILL");
    const exited = await host.waitForEvent("service-exited", "gate");
    expect(exited).toMatchObject({ severity: "error", details: { before: { pid: second.pid, build: other }, after: null, remaining: 0 } });

    const { stdout } = await runCoral(["events", "--service", "gate"], { home: host.home.path });
    expect(stdout).toContain(`gate restarted: pid ${first.pid} is now ${second.pid}`);
    expect(stdout).toContain(`gate exited: pid ${second.pid} is gone`);
  });

  it("is reported for scripts by the script, not by the interpreter", async () => {
    const script = join(directory, "till.mjs");
    const port = await freePort();
    const write = (text: string): void => {
      writeFileSync(
        `${script}.new`,
        `import { createServer } from "node:http";\ncreateServer((_, answer) => answer.end("${text}")).listen(${port});\n`,
      );
      renameSync(`${script}.new`, script);
    };
    const start = (): DaemonProcess => host.spawn([process.execPath, script]);

    write("one");
    const first = start();
    const found = await host.waitForProcess(port, first.pid);
    expect(found).toMatchObject({ buildKind: "script", service: { service: "till" } });

    write("two");
    const replaced = await host.waitForEvent("binary-updated", "till");
    expect(replaced.details).toMatchObject({
      where: "disk",
      before: { pid: first.pid, build: found.build },
      after: { buildKind: "script" },
    });

    await first.kill("SIGKILL");
    const second = start();
    const updated = await host.waitForEvent("binary-updated", "till", 2);
    expect(updated.message).toMatch(/^till runs another program: build [0-9a-f]{12} instead of build [0-9a-f]{12} /);
    const next = await host.waitForProcess(port, second.pid);
    expect(next.build).not.toBe(found.build);
    expect(next.build).toBe((replaced.details as { after: { build: string } }).after.build);
    await second.kill("SIGKILL");
  });
});
