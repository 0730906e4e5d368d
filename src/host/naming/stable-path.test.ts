import { describe, expect, it } from "vitest";
import { stablePath, withoutRelease } from "./stable-path.ts";

describe("stablePath()", () => {
  it.each([
    ["/opt/api/releases/20240101/server.js", "/opt/api/server.js"],
    ["/opt/api/releases/3f2a91c/server.js", "/opt/api/server.js"],
    ["/opt/api/current/server.js", "/opt/api/server.js"],
    ["/opt/api/v1.2.3/bin/api", "/opt/api/bin/api"],
    ["/opt/api/1.4.2-rc1/bin/api", "/opt/api/bin/api"],
    ["/opt/api/20240131T120000Z/api", "/opt/api/api"],
    ["/opt/api/2024-01-31/api", "/opt/api/api"],
    ["/opt/api-1.4.2/lib/api-1.4.2.jar", "/opt/api/lib/api.jar"],
    ["/opt/api/api-1.4.2-SNAPSHOT.jar", "/opt/api/api.jar"],
    ["/srv/venv/lib/python3.11/site-packages/shop/__main__.py", "/srv/venv/lib/python/site-packages/shop/__main__.py"],
    ["/nix/store/1b9p07z77phvv2hf6gm9f28syp39f1ag-redis-7.2.4/bin/redis-server", "/nix/store/redis/bin/redis-server"],
    ["/srv/shop/../billing//worker.py", "/srv/billing/worker.py"],
  ])("does not depend on the release: %s", (path, expected) => {
    expect(stablePath(path)).toBe(expected);
  });

  it.each([
    "/srv/shard/1/run.py",
    "/srv/8001/app",
    "/srv/api2/server.js",
    "/srv/releases",
    "/home/a/worker-2.py",
    "/tmp/tmp.aX3b9",
    "worker.py",
  ])("keeps what is not a release: %s", (path) => {
    expect(stablePath(path)).toBe(path);
  });

  it("keeps names that consist of a version only", () => {
    expect(withoutRelease("-1.2.3")).toBe("-1.2.3");
    expect(withoutRelease("python3.11")).toBe("python");
    expect(withoutRelease("node2")).toBe("node2");
  });
});
