import { describe, expect, it } from "vitest";
import { type AbilityFacts, type AbilityName, type AbilityOutcome, explainOutcome } from "./kernel-ability.ts";

const root: AbilityFacts = { capabilities: (1n << 41n) - 1n, hasBtf: true };
const unprivileged: AbilityFacts = { capabilities: 0n, hasBtf: true };
const onlyBpf: AbilityFacts = { capabilities: 1n << 39n, hasBtf: true };
const bpfAndPerfmon: AbilityFacts = { capabilities: (1n << 39n) | (1n << 38n), hasBtf: true };
const noBtf: AbilityFacts = { ...root, hasBtf: false };

const refused = (stage: "open" | "load" | "attach", errno: number, log = ""): AbilityOutcome => ({ stage, errno, log });

describe("explainOutcome()", () => {
  it("reports an attached program as available", () => {
    expect(explainOutcome("raw_tp", { stage: "attached" }, root)).toEqual({ name: "raw_tp", needed: true, available: true, reason: "" });
  });

  it.each<[string, AbilityName, AbilityOutcome, AbilityFacts, RegExp, RegExp | undefined]>([
    ["no object", "raw_tp", { stage: "object-missing" }, root, /not built/, /npm run setup/],
    [
      "no libbpf",
      "raw_tp",
      { stage: "library-missing", message: "cannot open" },
      root,
      /libbpf\.so\.1 does not load: cannot open/,
      /libbpf1/,
    ],
    ["a crash", "uprobe", { stage: "not-run", message: "the attempt crashed" }, root, /the attempt crashed/, undefined],
    ["no capability", "raw_tp", refused("load", 1), unprivileged, /CAP_BPF and CAP_PERFMON/, /AmbientCapabilities=CAP_BPF CAP_PERFMON/],
    ["one capability of two", "perf_event", refused("load", 1), onlyBpf, /lacks CAP_PERFMON$/, /root/],
    ["a uprobe through perf", "uprobe", refused("attach", 13), bpfAndPerfmon, /CAP_SYS_ADMIN/, /root/],
    ["an unreadable tracefs", "tracepoint", refused("attach", 13), bpfAndPerfmon, /CAP_DAC_READ_SEARCH/, /root/],
    ["a refusal to root", "fentry", refused("load", 1), root, /although the process has the capabilities/, undefined],
    ["no BTF", "tp_btf", refused("load", 3), noBtf, /type information/, /CONFIG_DEBUG_INFO_BTF/],
    [
      "a kernel before 6.3",
      "sock_recv_length",
      refused("attach", 2),
      root,
      /Linux 6.3 or newer; traffic is read at system calls instead/,
      undefined,
    ],
    ["no tracefs", "tracepoint", refused("attach", 2), root, /tracefs is not mounted/, /mount -t tracefs/],
    ["no kprobes", "kprobe", refused("attach", 2), root, /CONFIG_KPROBE_EVENTS/, undefined],
    ["an old kernel", "uprobe_multi", refused("attach", 22), root, /Linux 6\.6/, undefined],
    ["something else", "raw_tp", refused("attach", 12, "libbpf: one\nlibbpf: two\n"), root, /errno 12\): libbpf: two$/, undefined],
  ])("explains %s", (_case, name, outcome, facts, reason, fix) => {
    const explained = explainOutcome(name, outcome, facts);
    expect(explained).toMatchObject({ name, available: false });
    expect(explained.reason).toMatch(reason);
    if (fix === undefined) expect(explained.fix).toBeUndefined();
    else expect(explained.fix).toMatch(fix);
  });
});
