import { userInfo } from "node:os";
import { describe, expect, it } from "vitest";
import { agentPaths, checkSocketPath, colonyPaths, homePaths, isColonyId, resolveHome } from "./home.ts";

describe("resolveHome()", () => {
  it("prefers CORAL_HOME, made absolute", () => {
    expect(resolveHome({ CORAL_HOME: "/srv/coral", HOME: "/home/a", SUDO_USER: "b" }, 0)).toBe("/srv/coral");
    expect(resolveHome({ CORAL_HOME: "rel/x" }, 1000)).toBe(`${process.cwd()}/rel/x`);
    expect(resolveHome({ CORAL_HOME: "", HOME: "/home/a" }, 1000)).toBe("/home/a/.coral");
  });

  it("uses the home of the user who invoked sudo, but only as root", () => {
    const { username, homedir } = userInfo();
    const other = username === "root" ? "nobody" : username;
    const home = resolveHome({ SUDO_USER: other, HOME: "/root" }, 0);
    expect(home.endsWith("/.coral")).toBe(true);
    expect(home).not.toBe("/root/.coral");
    if (other === username) expect(home).toBe(`${homedir}/.coral`);
    expect(resolveHome({ SUDO_USER: other, HOME: "/home/me" }, 1000)).toBe("/home/me/.coral");
    expect(resolveHome({ SUDO_USER: "root", HOME: "/root" }, 0)).toBe("/root/.coral");
  });

  it("names the variable to set if that user is unknown", () => {
    expect(() => resolveHome({ SUDO_USER: "no-such-user-here", HOME: "/root" }, 0)).toThrow(
      'Cannot find the home directory of "no-such-user-here", who called sudo',
    );
  });
});

describe("paths", () => {
  it("match the documented layout", () => {
    expect(homePaths("/h").configFile).toBe("/h/config.yaml");
    expect(colonyPaths("/h", "shop-dev-1a2b3c")).toMatchObject({
      configFile: "/h/colonies/shop-dev-1a2b3c/colony.yaml",
      databaseFile: "/h/colonies/shop-dev-1a2b3c/data/colony.duckdb",
      socketFile: "/h/colonies/shop-dev-1a2b3c/colony.sock",
      logFile: "/h/colonies/shop-dev-1a2b3c/logs/colony.log",
    });
    expect(agentPaths("/h")).toMatchObject({
      idFile: "/h/agent/agent-id",
      keyFile: "/h/agent/identity/key.pem",
      pidFile: "/h/agent/agent.pid",
    });
  });

  it.each(["../x", "a/b", "", ".", "A", "-a", "a-", "a b", `a${"b".repeat(90)}`, "a\nb"])("colonyPaths() rejects id %j", (id) => {
    expect(isColonyId(id)).toBe(false);
    expect(() => colonyPaths("/h", id)).toThrow("Cannot use colony id");
  });

  it("checkSocketPath() rejects paths longer than a unix socket allows", () => {
    expect(checkSocketPath(`/${"a".repeat(106)}`)).toHaveLength(107);
    expect(() => checkSocketPath(`/${"a".repeat(107)}`)).toThrow("set CORAL_HOME to a shorter directory");
    expect(() => checkSocketPath(`/${"é".repeat(54)}`)).toThrow("109 bytes");
  });
});
