import { spawn } from "node:child_process";
import { once } from "node:events";
import { renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, type HostTree } from "../host-tree.fixture.ts";
import { createScriptBuilds, type InterpretedProcess, type ScriptBuilds } from "./script-builds.ts";

const shop = {
  "srv/shop/server.js": "listen(80)",
  "srv/shop/package.json": '{"name":"shop","version":"1.4.2","scripts":{}}',
  "srv/shop/package-lock.json": '{"lockfileVersion":3}',
};

function processOf(command: string, workingDirectory: string, more: Partial<InterpretedProcess> = {}): InterpretedProcess {
  const args = command.split(" ");
  return {
    pid: 42,
    startTicks: 100,
    isContained: false,
    image: null,
    interpreter: args[0]!.replace(/[\d.]+$/, ""),
    arguments: args,
    workingDirectory,
    ...more,
  };
}

const buildIn = (tree: HostTree, command: string, workingDirectory: string, builds?: ScriptBuilds): string | undefined =>
  (builds ?? createScriptBuilds(createHostRoot(tree.root))).of(processOf(command, workingDirectory))?.atStart?.build?.id;

describe("createScriptBuilds()", () => {
  it("changes with the script, the version and the lockfile only", () => {
    using tree = createHostTree({ ...shop, "srv/shop/unrelated.js": "x" });
    const build = (): string | undefined => buildIn(tree, "node server.js --port 80", "/srv/shop");
    const first = build();
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    const changes: [string, string, boolean][] = [
      ["srv/shop/server.js", "listen(81)", true],
      ["srv/shop/package.json", '{"name":"shop","version":"1.4.3"}', true],
      ["srv/shop/package-lock.json", '{"lockfileVersion":4}', true],
      ["srv/shop/package.json", '{"name":"shop","version":"1.4.2","scripts":{"test":"x"}}', false],
      ["srv/shop/unrelated.js", "y", false],
    ];
    for (const [file, text, isOther] of changes) {
      tree.write({ [file]: text });
      expect([file, build() !== first]).toEqual([file, isOther]);
      tree.write(shop);
      expect(build()).toBe(first);
    }
  });

  it("is the same for the same files elsewhere", () => {
    using tree = createHostTree({
      ...shop,
      ...Object.fromEntries(Object.entries(shop).map(([path, text]) => [path.replace("srv", "opt/v2"), text])),
    });
    expect(buildIn(tree, "node server.js", "/srv/shop")).toBe(buildIn(tree, "node /opt/v2/shop/server.js", "/"));
    expect(buildIn(tree, "node server", "/srv/shop")).toBe(buildIn(tree, "node server.js", "/srv/shop"));
  });

  it.each([
    ["python3 -m billing.worker", "/srv/billing", "srv/billing/billing/worker.py"],
    ["python3 -m billing", "/srv/billing", "srv/billing/billing/__main__.py"],
    ["python3 /usr/bin/gunicorn -b :80 shop.wsgi:app", "/srv/web", "srv/web/shop/wsgi.py"],
    ["python3 -m celery -A tasks worker", "/srv/web", "srv/web/tasks.py"],
    ["ruby bin/jobs.rb", "/srv/jobs", "srv/jobs/bin/jobs.rb"],
    ["ruby bin/jobs.rb", "/srv/jobs", "srv/jobs/Gemfile.lock"],
    ["php -S 0.0.0.0:80 -t public", "/srv/blog", "srv/blog/public/index.php"],
    ["php artisan.php", "/srv/blog", "srv/blog/composer.lock"],
    ["perl -I lib gate.pl", "/srv", "srv/gate.pl"],
    ["java -Xmx1g -jar /opt/api.jar", "/", "opt/api.jar"],
    ["java -cp /opt/classes:/opt/lib/* com.acme.Main", "/", "opt/lib/b.jar"],
    ["java -cp /opt/classes:/opt/lib/* com.acme.Main", "/", "opt/classes/com/acme/Main.class"],
    ["deno run -A feed.ts", "/srv", "srv/feed.ts"],
    ["bun run src/index.ts", "/srv/inbox", "srv/inbox/src/index.ts"],
    ["node node_modules/tsx/dist/cli.mjs watch src/orders.ts", "/srv/o", "srv/o/src/orders.ts"],
    ["node /usr/lib/node_modules/npm/bin/npm-cli.js start", "/srv/n", "srv/n/package-lock.json"],
  ])("%s in %s changes with %s", (command, directory, file) => {
    using tree = createHostTree({
      "srv/billing/billing/worker.py": "1",
      "srv/billing/billing/__main__.py": "1",
      "srv/web/shop/wsgi.py": "1",
      "srv/web/tasks.py": "1",
      "srv/jobs/bin/jobs.rb": "1",
      "srv/jobs/Gemfile.lock": "1",
      "srv/blog/public/index.php": "1",
      "srv/blog/artisan.php": "1",
      "srv/blog/composer.lock": "1",
      "srv/gate.pl": "1",
      "opt/api.jar": "1",
      "opt/lib/a.jar": "1",
      "opt/lib/b.jar": "1",
      "opt/classes/com/acme/Main.class": "1",
      "srv/feed.ts": "1",
      "srv/inbox/src/index.ts": "1",
      "srv/o/src/orders.ts": "1",
      "srv/n/package-lock.json": "1",
    });
    const first = buildIn(tree, command, directory);
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    tree.write({ [file]: "two" });
    expect(buildIn(tree, command, directory)).not.toBe(first);
  });

  it.each([
    ["node -e listen()", "code on the command line"],
    ["python3 -m http.server 8000", "an installed module"],
    ["python3 -m elsewhere", "a module that is not in the directory"],
    ["node gone.js", "a script that is gone"],
    ["node pipe.js", "a directory under the script's name"],
    ["node", "no script"],
  ])("uses the interpreter's build for %s: %s", (command) => {
    using tree = createHostTree({ ...shop, "srv/shop/pipe.js": { directory: true } });
    expect(createScriptBuilds(createHostRoot(tree.root)).of(processOf(command, "/srv/shop"))).toBeNull();
  });

  it("ignores manifests in shared directories", () => {
    using tree = createHostTree({ "tmp/a/b/x.js": "1", "tmp/package-lock.json": "1", "package-lock.json": "1" });
    const first = buildIn(tree, "node x.js", "/tmp/a/b");
    tree.write({ "tmp/package-lock.json": "22", "package-lock.json": "22" });
    expect(buildIn(tree, "node x.js", "/tmp/a/b")).toBe(first);
  });

  it("searches the process's own root, and only there in a container", () => {
    using tree = createHostTree({ ...shop, "inside/srv/shop/server.js": "inside" });
    tree.write({ "proc/42/root": { link: join(tree.root, "inside") } });
    const builds = createScriptBuilds(createHostRoot(tree.root));
    const contained = processOf("node server.js", "/srv/shop", { isContained: true });
    expect(builds.of(contained)?.files.map(({ path }) => path)).toEqual(["/srv/shop/server.js"]);
    expect(builds.of({ ...contained, pid: 43 })).toBeNull();
  });

  it("detects changes at both ends of large files", () => {
    const body = "x".repeat(6 * 1024 * 1024);
    using tree = createHostTree({ "opt/a.jar": `1${body}1` });
    const builds = new Set([buildIn(tree, "java -jar /opt/a.jar", "/")]);
    for (const text of [`2${body}1`, `1${body}2`, `1${body}11`]) {
      tree.write({ "opt/a.jar": text });
      builds.add(buildIn(tree, "java -jar /opt/a.jar", "/"));
    }
    expect(builds.size).toBe(4);
  });

  it("has no build for a program that changed after its start", () => {
    using tree = createHostTree({ ...shop, "proc/uptime": "1000.00 1.00\n" });
    const builds = createScriptBuilds(createHostRoot(tree.root));
    const program = builds.of(processOf("node server.js", "/srv/shop", { startTicks: 100 }));
    expect(program).toMatchObject({ atStart: null });
    expect(builds.onDisk(program!)?.build?.kind).toBe("script");
    const past = Date.now() / 1_000 - 5_000;
    for (const path of Object.keys(shop)) utimesSync(join(tree.root, path), past, past);
    expect(builds.of(processOf("node server.js", "/srv/shop", { startTicks: 100 }))?.atStart?.build?.kind).toBe("script");
  });

  it("uses the parent's build for forked workers", () => {
    using tree = createHostTree(shop);
    const builds = createScriptBuilds(createHostRoot(tree.root));
    const parent = builds.of(processOf("node server.js", "/srv/shop", { image: "7 node" }));
    tree.write({ "srv/shop/server.js": "other" });
    expect(builds.of(processOf("node server.js", "/srv/shop", { image: "7 node", pid: 43 }))?.atStart).toEqual(parent!.atStart);
    expect(builds.of(processOf("node server.js", "/srv/shop", { image: "8 node" }))?.atStart).not.toEqual(parent!.atStart);
    expect(builds.onDisk(parent!)?.build?.id).not.toBe(parent!.atStart?.build?.id);
    rmSync(join(tree.root, "srv/shop/server.js"));
    expect(builds.onDisk(parent!)).toBeNull();
  });

  it("distinguishes a restart with changed code from a plain restart of node app.js", async () => {
    using tree = createHostTree({ "app.mjs": "setInterval(() => {}, 1e6); process.send?.('up');" });
    const builds = createScriptBuilds(createHostRoot());
    const start = async (): Promise<string | undefined> => {
      const child = spawn(process.execPath, ["app.mjs"], { cwd: tree.root, stdio: ["ignore", "ignore", "ignore", "ipc"] });
      await once(child, "message");
      const running = processOf("node app.mjs", tree.root, { pid: child.pid!, startTicks: Number.MAX_SAFE_INTEGER });
      const id = builds.of(running)?.atStart?.build?.id;
      child.kill("SIGKILL");
      await once(child, "exit");
      return id;
    };
    const first = await start();
    expect(await start()).toBe(first);
    writeFileSync(join(tree.root, "next.mjs"), "setInterval(() => {}, 2e6); process.send?.('up');");
    renameSync(join(tree.root, "next.mjs"), join(tree.root, "app.mjs"));
    expect(await start()).not.toBe(first);
  });
});
