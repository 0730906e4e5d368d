import { describe, expect, it } from "vitest";
import { containerIdOf, systemdUnitOf } from "./cgroup-names.ts";

const id = "3f2a".repeat(16);

describe("systemdUnitOf()", () => {
  it.each([
    ["/system.slice/nginx.service", "nginx"],
    ["/system.slice/system-postgresql.slice/postgresql@15-main.service", "postgresql@15-main"],
    ["/system.slice/my\\x2dapp.service", "my-app"],
    ["/user.slice/user-1000.slice/user@1000.service/app.slice/shop.service", "shop"],
    ["/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-Terminal.scope", null],
    [`/system.slice/docker-${id}.scope/system.slice/redis.service`, "redis"],
    ["/system.slice/web.service/libpod-payload-1", "web"],
    ["/user.slice/user-0.slice/session-3.scope", null],
    [`/system.slice/docker-${id}.scope`, null],
    ["/system.slice/cron.service", null],
    ["/system.slice/pm2-root.service", null],
    ["/system.slice/run-u42.service", null],
    ["/system.slice/.service", null],
    ["/", null],
  ])("of %s is %j", (cgroup, expected) => {
    expect(systemdUnitOf(cgroup)).toBe(expected);
  });
});

describe("containerIdOf()", () => {
  it.each([
    [`/docker/${id}`, id.slice(0, 12)],
    [`/kubepods.slice/kubepods-burstable.slice/kubepods-pod1.slice/cri-containerd-${id}.scope`, id.slice(0, 12)],
    [`/docker/${"a".repeat(64)}/docker/${id}`, id.slice(0, 12)],
    [`/x/${id}0`, null],
    ["/system.slice/nginx.service", null],
  ])("of %s is %j", (cgroup, expected) => {
    expect(containerIdOf(cgroup)).toBe(expected);
  });
});
