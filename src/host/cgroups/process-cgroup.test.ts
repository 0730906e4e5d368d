import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { processCgroup } from "./process-cgroup.ts";

const v1 =
  "12:pids:/system.slice\n9:memory:/system.slice/nginx.service\n4:cpu,cpuacct:/system.slice\n1:name=systemd:/system.slice/nginx.service\n";

describe("processCgroup()", () => {
  it.each([
    ["v2", "0::/user.slice/user-0.slice/session-1.scope\n", "/user.slice/user-0.slice/session-1.scope"],
    ["v1, the deepest", v1, "/system.slice/nginx.service"],
    ["hybrid", "9:name=systemd:/\n4:memory:/process_api/e2c8\n0::/\n", "/process_api/e2c8"],
    ["equal depth: memory first", "5:cpu:/b\n4:memory:/a\n0::/c\n", "/a"],
    ["no group", "0::/\n", "/"],
    ["a removed group", "0::/x.scope (deleted)\n", "/x.scope"],
    ["colons in the path", "0::/containerd.service:cri:abc\n", "/containerd.service:cri:abc"],
    ["nothing", "", null],
  ])("reads %s", (_, text, expected) => {
    expect(processCgroup(text)).toBe(expected);
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([v1], 14)) expect((processCgroup(text) ?? "").length).toBeLessThanOrEqual(512);
  });
});
