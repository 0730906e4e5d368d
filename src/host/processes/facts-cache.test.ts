import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { noExtraRules } from "../../redact/index.ts";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, type TreeEntry } from "../host-tree.fixture.ts";
import { createContainerReader } from "../naming/container-facts.ts";
import { noPodLabels } from "../naming/kubernetes-facts.ts";
import { createCommandLines } from "./command-lines.ts";
import { createExecutableBuilds } from "./executable-builds.ts";
import { FactsCache } from "./facts-cache.ts";
import { createEnvironmentCache } from "./process-facts.ts";
import type { ProcessEntry } from "./process-table.ts";
import { createScriptBuilds } from "./script-builds.ts";
import { createUserNames } from "./user-names.ts";

const statOf = (pid: number, stack: number): string =>
  `${pid} (node) S 1 42 42 0 -1 4194560 120 0 7 0 250 50 0 -3 20 0 12 0 500 104857600 5059 18446744073709551615 1 2 ${stack} 0 0\n`;
const processOf = (pid: number, stack: number, script: string, environment: string): Record<string, TreeEntry> => ({
  [`proc/${pid}/stat`]: statOf(pid, stack),
  [`proc/${pid}/cmdline`]: `node\0${script}\0`,
  [`proc/${pid}/environ`]: environment,
  [`proc/${pid}/exe`]: { link: "/usr/bin/node" },
  [`proc/${pid}/cwd`]: { link: "/srv" },
});
const entryOf = (pid: number, execMark: number): ProcessEntry => ({
  ...{ pid, startTicks: 500, execMark, parentPid: 1, name: "node", networkNamespace: 1, sinceScan: 1 },
});

function cacheOf(tree: string): FactsCache {
  const root = createHostRoot(tree);
  const cache = new FactsCache({
    root,
    users: createUserNames(root),
    containers: createContainerReader(root),
    builds: createExecutableBuilds(root),
    scripts: createScriptBuilds(root),
    pods: noPodLabels,
    cgroups: new Map(),
    commandLines: createCommandLines(),
    environments: createEnvironmentCache(root),
  });
  cache.begin({ rules: { redaction: noExtraRules, patterns: [], kubernetesLabel: null }, scan: 1, youngAfterTicks: 0 }, []);
  return cache;
}

it("does not take the environment of its parent for that of a child that has executed its program since the table was read", () => {
  const tree = createHostTree({
    "proc/sys/kernel/randomize_va_space": "2\n",
    ...processOf(7, 1_000, "parent.js", "OTEL_SERVICE_NAME=parent\0"),
    ...processOf(8, 2_000, "child.js", "OTEL_SERVICE_NAME=child\0"),
  });
  try {
    const cache = cacheOf(tree.root);
    const nameOf = (entry: ProcessEntry): string | undefined => cache.of(entry)?.name?.name;
    expect(nameOf(entryOf(7, 1_000))).toBe("parent");
    // The table was read between fork and exec.
    expect(nameOf(entryOf(8, 1_000))).toBe("child");
    expect(nameOf(entryOf(7, 1_000))).toBe("parent");
  } finally {
    rmSync(tree.root, { recursive: true, force: true });
  }
});

it("reads a young process again that executes another program during a scan", () => {
  const tree = createHostTree({
    "proc/sys/kernel/randomize_va_space": "2\n",
    ...processOf(8, 1_000, "wrapper.js", ""),
  });
  try {
    const cache = cacheOf(tree.root);
    expect(cache.of(entryOf(8, 1_000))?.name?.name).toBe("wrapper");
    writeFileSync(join(tree.root, "proc/8/stat"), statOf(8, 2_000));
    writeFileSync(join(tree.root, "proc/8/cmdline"), "node\0orders.js\0");
    expect(cache.of(entryOf(8, 1_000))?.name?.name).toBe("orders");
  } finally {
    rmSync(tree.root, { recursive: true, force: true });
  }
});
