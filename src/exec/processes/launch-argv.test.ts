import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { ProcessView } from "../../host/index.ts";
import { type LaunchOptions, launchArgv, mayEnterNamespaces } from "./launch-argv.ts";

const hasTools = existsSync("/usr/bin/setpriv") && existsSync("/usr/bin/nsenter");
const options = (change: Partial<LaunchOptions> = {}): LaunchOptions => ({
  file: "/usr/bin/ps",
  args: ["aux", "$(id)", "--"],
  redirections: { dropStdout: false, dropStderr: false, stderrToStdout: false },
  joinFiles: [],
  readOnly: undefined,
  user: { uid: 65_534, gid: 65_534 },
  groups: [],
  capabilities: [],
  target: undefined,
  workingDirectory: "",
  ...change,
});
const target: ProcessView = {
  pid: 42,
  startTicks: "1",
  rootPrefix: "/x",
  uid: 0,
  gid: 0,
  namespaces: ["mnt", "pid", "cgroup"],
  place: "x",
};

describe.runIf(hasTools)("launchArgv()", () => {
  it("puts the command's argv last, after every option of the wrappers", () => {
    const words = launchArgv(options({ joinFiles: ["/g/cgroup.procs"] }));
    expect(words.slice(3, 8)).toEqual(["coral-launch", "n", "", "/g/cgroup.procs", "--"]);
    expect(words.slice(-5)).toEqual(["--", "/usr/bin/ps", "aux", "$(id)", "--"]);
    // The shell script is the same for every command.
    expect(words[2]).toBe(launchArgv(options({ file: "/bin/x", args: [] }))[2]);
    expect(words[2]).not.toContain("ps");
  });

  it("drops every privilege that was not requested", () => {
    expect(launchArgv(options())).toEqual(
      expect.arrayContaining([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--bounding-set=-all",
        "--ambient-caps=-all",
        "--no-new-privs",
      ]),
    );
    expect(launchArgv(options({ capabilities: ["net_raw"], groups: [4, 9] }))).toEqual(
      expect.arrayContaining(["--groups=4,9", "--inh-caps=-all,+net_raw", "--bounding-set=-all,+net_raw", "--no-new-privs"]),
    );
  });

  it("adds no wrapper for an agent without root", () => {
    expect(launchArgv(options({ user: undefined })).slice(4)).toEqual(["n", "", "--", "/usr/bin/ps", "aux", "$(id)", "--"]);
  });

  it("changes the directory after switching the user", () => {
    const words = launchArgv(options({ workingDirectory: "/srv" }));
    expect(words.indexOf("coral-cd")).toBeGreaterThan(words.indexOf("--no-new-privs"));
    expect(words[words.indexOf("coral-cd") + 1]).toBe("/srv");
  });

  it.runIf(mayEnterNamespaces())("enters only namespaces that differ, with the user's privileges, never as root", () => {
    const words = launchArgv(options({ target, workingDirectory: "/app" }));
    expect(words.slice(words.indexOf("/usr/bin/nsenter"))).toEqual([
      ...[
        "/usr/bin/nsenter",
        "--target=42",
        "--mount",
        "--pid",
        "--cgroup",
        "--root",
        "--wdns=/app",
        "--setgid=65534",
        "--setuid=65534",
        "--",
      ],
      ...["/usr/bin/ps", "aux", "$(id)", "--"],
    ]);
    expect(words.indexOf("--no-new-privs")).toBeLessThan(words.indexOf("/usr/bin/nsenter"));
    expect(() => launchArgv(options({ target, user: { uid: 0, gid: 0 } }))).toThrow("Cannot run as root inside the namespaces");
    expect(() => launchArgv(options({ target: { ...target, namespaces: ["user", "mnt"] } }))).toThrow("its own user namespace");
  });

  it("reports the capability missing to enter namespaces", () => {
    expect(() => launchArgv(options({ target, user: undefined }))).toThrow(
      "Cannot enter the namespaces of process 42: the agent lacks permission; run it",
    );
  });
});
