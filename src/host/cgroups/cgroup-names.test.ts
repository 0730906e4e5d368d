import { describe, expect, it } from "vitest";
import { containerOf } from "../naming/container-facts.ts";
import { systemdUnitIn, systemdUnitOf } from "./cgroup-names.ts";

const id = "3f2a".repeat(16);

describe("systemdUnitOf()", () => {
  it.each([
    ["/system.slice/nginx.service", "nginx"],
    ["/system.slice/system-postgresql.slice/postgresql@15-main.service", "postgresql"],
    ["/system.slice/system-app.slice/app@2.service", "app"],
    ["/system.slice/system-redis.slice/redis@queue.service", "redis@queue"],
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

describe("systemdUnitIn()", () => {
  it.each([
    ["/system.slice/nginx.service", "nginx.service"],
    ["/system.slice/system-postgresql.slice/postgresql@15-main.service", "postgresql@15-main.service"],
    ["/system.slice/my\\x2dapp.service/sub", "my-app.service"],
    ["/system.slice/cron.service", "cron.service"],
    ["/system.slice/.service", null],
    ["/user.slice/user-0.slice/session-3.scope", null],
  ])("of %s is %j", (cgroup, expected) => {
    expect(systemdUnitIn(cgroup)).toBe(expected);
  });
});

describe("containerOf()", () => {
  it.each([
    [`/docker/${id}`, { id, runtime: "docker" }],
    [`/system.slice/docker-${id}.scope`, { id, runtime: "docker" }],
    [`/kubepods.slice/kubepods-burstable.slice/kubepods-pod1.slice/cri-containerd-${id}.scope`, { id, runtime: "containerd" }],
    [`/kubepods.slice/kubepods-pod1.slice/crio-${id}.scope`, { id, runtime: "cri-o" }],
    [`/machine.slice/libpod-${id}.scope/container`, { id, runtime: "podman" }],
    [`/kubepods/burstable/pod1/${id}`, { id, runtime: "unknown" }],
    [`/docker/${"a".repeat(64)}/docker/${id}`, { id, runtime: "docker" }],
    ["/lxc.payload.shop/system.slice/nginx.service", { id: "shop", runtime: "lxc" }],
    ["/lxc/shop", { id: "shop", runtime: "lxc" }],
    ["/machine.slice/systemd-nspawn@shop.service", { id: "shop", runtime: "nspawn" }],
    ["/machine.slice/machine-my\\x2dshop.scope", { id: "my-shop", runtime: "nspawn" }],
    [`/x/${id}0`, null],
    ["/system.slice/nginx.service", null],
  ])("of %s is %j", (cgroup, expected) => {
    expect(containerOf(cgroup)).toEqual(expected);
  });
});
