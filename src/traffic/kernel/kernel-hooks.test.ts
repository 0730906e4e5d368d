import { describe, expect, it } from "vitest";
import { hookSetOf, maxConnectionSlots, openKernelHooks, slotsOf } from "./kernel-hooks.ts";

describe("hookSetOf()", () => {
  it.each([
    ["tp_btf/sock_recv_length", "sockets"],
    ["raw_tracepoint/sock_send_length", "sockets"],
    ["tp_btf/tcp_sendmsg_locked", "long-sends"],
    ["tp_btf/tcp_rcv_space_adjust", "hidden-reads"],
    ["tp_btf/sk_data_ready", "both"],
    ["tp_btf/inet_sock_set_state", "both"],
    ["tp_btf/tcp_destroy_sock", "both"],
    ["tracepoint/syscalls/sys_enter_read", "syscalls"],
    ["tp_btf/sys_exit", "syscalls"],
    ["raw_tracepoint/sys_enter", "syscalls"],
    ["uprobe", "plaintext"],
    ["uretprobe", "plaintext"],
    ["syscall", "on-demand"],
  ])("assigns %s to its hook set", (section, set) => {
    expect(hookSetOf(section)).toBe(set);
  });
});

describe("slotsOf()", () => {
  it.each([
    [1, 2],
    [16, 4],
    [2_047, 256],
    [2_048, 512],
    [65_536, 16_384],
    [1_000_000, 16_384],
  ])("for %d connections, makes %d of them array slots", (maxConnections, slots) => {
    expect(slotsOf(maxConnections, maxConnectionSlots)).toBe(slots);
  });
});

describe("openKernelHooks()", () => {
  it("fails with the reason when there is no object to load", async () => {
    const settings = {
      windowMs: 1000,
      maxRequestKinds: 16,
      maxConnections: 16,
      maxRoutesPerService: 16,
      ringBytes: 4096,
      tls: { isEnabled: false, excludedExecutables: [] },
      cpuBudget: 1,
    };
    const opening = openKernelHooks({ settings, ownPids: [], objectPath: "/no/such/object.o" });
    await expect(opening).rejects.toThrow(/errno 2|libbpf|lacks/);
  });
});
