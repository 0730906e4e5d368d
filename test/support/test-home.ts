import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A temporary CORAL_HOME. `await using home = makeTestHome()` removes it at the end; stop its daemons first. */
export interface TestHome extends AsyncDisposable {
  path: string;
}

/** Short, because paths of Unix sockets are limited to about 100 bytes. */
export function makeTestHome(): TestHome {
  const path = mkdtempSync(join(tmpdir(), "coral-"));
  return {
    path,
    [Symbol.asyncDispose]: () => {
      rmSync(path, { recursive: true, force: true, maxRetries: 3 });
      return Promise.resolve();
    },
  };
}

/** This process's environment without variables that point to the user's own Coral. */
export function cleanEnvironment(home: string, more: Record<string, string> = {}): Record<string, string> {
  const kept = Object.entries(process.env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && !/^(?:CORAL_|SUDO_|NODE_OPTIONS|VITEST|NO_COLOR|FORCE_COLOR)/.test(entry[0]),
  );
  return { ...Object.fromEntries(kept), CORAL_HOME: home, NO_COLOR: "1", ...more };
}
