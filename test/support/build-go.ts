import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Runs `go build` in a directory, without modules or network. All tests share one build cache: compiling the standard library takes most of the time.
 * @param args such as `["-o", "server", "main.go"]`
 */
export function buildGo(directory: string, args: readonly string[]): void {
  const env = { ...process.env, GO111MODULE: "off", GOPROXY: "off", GOCACHE: process.env["GOCACHE"] ?? join(tmpdir(), "coral-go-cache") };
  execFileSync("go", ["build", ...args], { cwd: directory, env, stdio: "pipe" });
}
