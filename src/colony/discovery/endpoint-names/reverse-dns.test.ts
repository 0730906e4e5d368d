import { afterEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../../base/clock.ts";
import { createLogger, silentLogger } from "../../../base/log.ts";
import { SeededRandom } from "../../../base/seeded-random.fixture.ts";
import { needsProof } from "./choose-name.ts";
import {
  addressRecord,
  type DnsQuestion,
  type DnsReply,
  type DnsServer,
  dnsReply,
  ptrRecord,
  ptrTo,
  recordTypes,
  startDnsServer,
} from "./dns-server.fixture.ts";
import { ReverseDns, type ReverseDnsOptions, type ReverseDnsSettings } from "./reverse-dns.ts";

const resources: AsyncDisposable[] = [];

afterEach(async () => {
  for (const resource of resources.splice(0).reverse()) await resource[Symbol.asyncDispose]();
});

type Answer = (question: DnsQuestion) => DnsReply | Promise<DnsReply>;

interface Started {
  dns: ReverseDns;
  server: DnsServer;
  settings: ReverseDnsSettings;
  /** Advances the cache's clock; DNS timeouts use real time. */
  passMs(byMs: number): void;
  /** Requests an address and waits for an answer or a failure. */
  ask(...addresses: string[]): Promise<(string | undefined)[]>;
}

async function start(
  answer: Answer,
  more: Partial<ReverseDnsSettings> & Partial<Pick<ReverseDnsOptions, "log" | "onAnswer">> = {},
): Promise<Started> {
  const server = await startDnsServer(answer);
  const { log = silentLogger, onAnswer, ...others } = more;
  const settings = { isEnabled: true, servers: [server.address], cacheTtlMs: 3_600_000, timeoutMs: 5_000, ...others };
  let aheadMs = 0;
  const clock = { wallMs: systemClock.wallMs, monotonicMs: () => systemClock.monotonicMs() + aheadMs };
  const dns = new ReverseDns({
    settings,
    needsProof: (_address, hostName) => needsProof(hostName, undefined),
    ...(onAnswer ? { onAnswer } : {}),
    clock,
    log,
  });
  resources.push(server, dns);
  const ask = async (...addresses: string[]): Promise<(string | undefined)[]> => {
    for (const address of addresses) dns.request(address);
    await vi.waitFor(() => expect(addresses.some((address) => dns.isPending(address))).toBe(false), { timeout: 30_000, interval: 5 });
    return addresses.map((address) => dns.get(address)?.hostName);
  };
  return { dns, server, settings, ask, passMs: (byMs) => void (aheadMs += byMs) };
}

/** Names by reverse zone, addresses by name; NXDOMAIN otherwise. */
const zone =
  (names: Record<string, string[]>, addresses: Record<string, string[]> = {}): Answer =>
  (question) => {
    if (question.type === recordTypes.PTR) {
      const found = names[question.name];
      return found ? dnsReply(question, found.map(ptrTo)) : dnsReply(question, [], 3);
    }
    const found = addresses[question.name];
    return found ? dnsReply(question, found.map(addressRecord)) : dnsReply(question, [], 3);
  };

describe("ReverseDns", () => {
  it("resolves IPv4 and IPv6 addresses, and caches names and their absence", async () => {
    const answered: string[] = [];
    const { dns, server, ask } = await start(
      zone({
        "7.113.0.203.in-addr.arpa": ["LB-Prod.Example.com"],
        "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa": ["six.example.com"],
      }),
      { onAnswer: (address) => answered.push(address) },
    );
    expect(await ask("203.0.113.7", "2001:db8::1", "203.0.113.8")).toEqual(["lb-prod.example.com", "six.example.com", undefined]);
    expect(answered.sort()).toEqual(["2001:db8::1", "203.0.113.7", "203.0.113.8"]);
    expect(dns.isFresh("203.0.113.8")).toBe(true);
    await ask("203.0.113.7", "2001:db8::1", "203.0.113.8");
    expect(server.questions).toHaveLength(3);
    expect(dns.stats).toMatchObject({ cached: 3, queries: 3, named: 2, absent: 1, failed: 0, dropped: 0, isPaused: false });
  });

  it("resolves again when an answer has expired, sooner without a name, and uses the old name until then", async () => {
    const names: Record<string, string[]> = { "7.113.0.203.in-addr.arpa": ["old.example.com"] };
    const { dns, server, ask, passMs } = await start((question) => zone(names)(question));
    await ask("203.0.113.7", "203.0.113.8");
    names["7.113.0.203.in-addr.arpa"] = ["new.example.com"];
    names["8.113.0.203.in-addr.arpa"] = ["late.example.com"];
    passMs(16 * 60_000);
    expect(await ask("203.0.113.7", "203.0.113.8")).toEqual(["old.example.com", "late.example.com"]);
    expect(server.questions).toHaveLength(3);
    passMs(60 * 60_000);
    expect(dns.isFresh("203.0.113.7")).toBe(false);
    expect(dns.get("203.0.113.7")?.hostName).toBe("old.example.com");
    expect(await ask("203.0.113.7")).toEqual(["new.example.com"]);
  });

  it("uses the alphabetically first of several names", async () => {
    let turn = 0;
    const { ask, passMs } = await start((question) =>
      dnsReply(
        question,
        turn++ % 2 === 0 ? [ptrTo("b.example.com"), ptrTo("a.example.com")] : [ptrTo("a.example.com"), ptrTo("b.example.com")],
      ),
    );
    expect(await ask("203.0.113.7")).toEqual(["a.example.com"]);
    passMs(3_700_000);
    expect(await ask("203.0.113.7")).toEqual(["a.example.com"]);
  });

  it("uses the name of a product only if it resolves back to the address", async () => {
    const { dns, ask } = await start(
      zone(
        {
          "1.113.0.203.in-addr.arpa": ["s3.amazonaws.com"],
          "2.113.0.203.in-addr.arpa": ["lb-2.github.com"],
          "3.113.0.203.in-addr.arpa": ["api.stripe.com", "mail.example.com"],
        },
        { "s3.amazonaws.com": ["52.216.1.1"], "lb-2.github.com": ["140.82.121.4", "203.0.113.2"] },
      ),
    );
    expect(await ask("203.0.113.1", "203.0.113.2", "203.0.113.3")).toEqual([undefined, "lb-2.github.com", "mail.example.com"]);
    expect(dns.get("203.0.113.2")?.isProven).toBe(true);
    expect(dns.get("203.0.113.3")?.isProven).toBe(false);
    expect(dns.stats).toMatchObject({ named: 2, absent: 1, rejectedNames: 2 });
  });

  it("rejects hostile names", async () => {
    const hostile = [
      ptrRecord("\u001b[31mred", "example", "com"),
      ptrRecord("a\u0000b", "example"),
      ptrRecord("new\nline", "example"),
      ptrRecord("dotted.label", "<script>"),
      ptrRecord("'; drop table x; --"),
      ptrRecord("é", "example"),
      ptrRecord("a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(63)),
      ptrRecord("localhost"),
      ptrRecord("192", "0", "2", "1"),
      ptrRecord(),
    ];
    const { dns, ask } = await start((question) => dnsReply(question, [hostile[Number(question.name.split(".")[0])]!]));
    const addresses = hostile.map((_, index) => `203.0.113.${index}`);
    expect(await ask(...addresses)).toEqual(addresses.map(() => undefined));
    expect(dns.stats.named).toBe(0);
  });

  it("considers a bounded number of names", async () => {
    const { dns, ask } = await start((question) => {
      const names = Array.from({ length: 200 }, (_, index) => ptrTo(`n${String(index).padStart(3, "0")}.example.com`));
      return dnsReply(question, question.transport === "udp" ? [] : names, 0, question.transport === "udp");
    });
    expect(await ask("203.0.113.7")).toEqual(["n000.example.com"]);
    expect(dns.stats.named).toBe(1);
  });

  it("uses TCP when the answer is truncated, and fails when that is truncated too", async () => {
    const { server, ask } = await start((question) => {
      if (question.transport === "udp") return dnsReply(question, [], 0, true);
      return question.name.startsWith("7.") ? dnsReply(question, [ptrTo("long.example.com")]) : undefined;
    });
    expect(await ask("203.0.113.7", "203.0.113.8")).toEqual(["long.example.com", undefined]);
    expect(server.questions.map(({ transport }) => transport)).toContain("tcp");
  });

  it("survives malformed answers, and retries later", async () => {
    const random = new SeededRandom(99);
    const { dns } = await start(
      (question) => {
        const bytes = dnsReply(question, [ptrTo("host.example.com")]);
        for (let flips = 1 + random.below(6); flips > 0; flips--) bytes[2 + random.below(bytes.length - 2)] = random.below(256);
        return random.below(3) === 0 ? bytes.subarray(0, random.below(bytes.length)) : bytes;
      },
      { timeoutMs: 30 },
    );
    const addresses = Array.from({ length: 60 }, (_, index) => `203.0.113.${index}`);
    for (const address of addresses) dns.request(address);
    await vi.waitFor(() => expect(dns.stats.inFlight + dns.stats.queued === 0 || dns.stats.isPaused).toBe(true), { timeout: 10_000 });
    for (const address of addresses) expect(dns.get(address)?.hostName ?? "").toMatch(/^[a-z0-9_.-]*$/);
    expect(dns.stats.failed).toBeGreaterThan(0);
  });

  it("keeps a known name when no server answers, and backs off", async () => {
    let isSilent = false;
    const { dns, ask, passMs } = await start((question) => (isSilent ? undefined : dnsReply(question, [ptrTo("host.example.com")])), {
      timeoutMs: 300,
    });
    await ask("203.0.113.7");
    isSilent = true;
    passMs(3_700_000);
    expect(await ask("203.0.113.7", "203.0.113.8")).toEqual(["host.example.com", undefined]);
    expect(dns.stats.failed).toBe(2);
    passMs(61_000);
    expect(dns.isFresh("203.0.113.7")).toBe(false);
    await ask("203.0.113.7");
    passMs(61_000);
    expect(dns.isFresh("203.0.113.7")).toBe(true);
    passMs(60_000);
    expect(dns.isFresh("203.0.113.7")).toBe(false);
  });

  it.each([
    ["SERVFAIL", 2],
    ["REFUSED", 5],
  ])("counts %s as a failure, not as the absence of a name", async (_name, rcode) => {
    const { dns, ask } = await start((question) => dnsReply(question, [], rcode));
    await ask("203.0.113.7");
    expect(dns.stats).toMatchObject({ failed: 1, absent: 0 });
  });

  it("sends eight queries at a time, queues ten thousand and counts the dropped rest", async () => {
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    let waiting = 0;
    const { dns, server } = await start(
      async (question) => {
        waiting++;
        await gate;
        return dnsReply(question, [], 3);
      },
      { timeoutMs: 20_000 },
    );
    for (let index = 0; index < 10_020; index++) dns.request(`10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`);
    await vi.waitFor(() => expect(waiting).toBe(8));
    expect(dns.stats).toMatchObject({ inFlight: 8, queued: 10_000, dropped: 12 });
    expect(server.questions).toHaveLength(8);
    dns.request("10.0.0.1");
    expect(dns.stats.dropped).toBe(12);
    release();
  });

  it("pauses queries when no server answers, and logs that once", async () => {
    const lines: string[] = [];
    let isSilent = true;
    const { dns, server, passMs } = await start((question) => (isSilent ? undefined : dnsReply(question, [], 3)), {
      timeoutMs: 300,
      log: createLogger("dns", "info", ({ message }) => lines.push(message)),
    });
    for (let index = 0; index < 100; index++) dns.request(`203.0.113.${index}`);
    await vi.waitFor(() => expect(dns.stats).toMatchObject({ isPaused: true, inFlight: 0 }), { timeout: 30_000 });
    const sent = server.questions.length;
    expect(dns.stats.queued).toBeGreaterThan(50);
    expect(lines).toEqual(["No DNS server responds; external addresses stay unnamed until one does"]);
    isSilent = false;
    dns.request("198.51.100.1");
    expect(dns.stats.inFlight).toBe(0);
    passMs(31_000);
    dns.request("198.51.100.2");
    await vi.waitFor(() => expect(dns.stats).toMatchObject({ queued: 0, inFlight: 0, isPaused: false }));
    expect(server.questions.length).toBeGreaterThan(sent + 50);
    expect(lines).toHaveLength(2);
  });

  it("sends nothing while disabled, and queries new servers after a change", async () => {
    const { dns, server, settings, ask } = await start(zone({}));
    await ask("203.0.113.7");
    dns.reconfigure({ ...settings, isEnabled: false });
    dns.request("203.0.113.9");
    expect(dns.stats).toMatchObject({ queued: 0, inFlight: 0 });
    const other = await startDnsServer(zone({ "7.113.0.203.in-addr.arpa": ["inside.corp.example"] }));
    resources.push(other);
    dns.reconfigure({ ...settings, servers: [other.address] });
    expect(await ask("203.0.113.7")).toEqual(["inside.corp.example"]);
    expect(server.questions).toHaveLength(1);
  });

  it("rejects servers that are not addresses, and keeps the current ones", async () => {
    const { dns, settings, ask } = await start(zone({ "7.113.0.203.in-addr.arpa": ["a.example.com"] }));
    expect(() => dns.reconfigure({ ...settings, servers: ["dns.example.com"] })).toThrow(
      /Cannot use DNS servers \["dns.example.com"\]: use addresses/,
    );
    expect(await ask("203.0.113.7")).toEqual(["a.example.com"]);
  });

  it("restores names, and rejects invalid stored ones", async () => {
    const { dns } = await start(zone({}));
    dns.restore("203.0.113.7", "a.example.com", false, 60_000);
    dns.restore("203.0.113.8", "old.example.com", true, -5_000);
    dns.restore("203.0.113.9", undefined, false, 99 * 3_600_000);
    dns.restore("203.0.113.10", "\u001b[31m", false, 60_000);
    expect(dns.get("203.0.113.7")).toMatchObject({ hostName: "a.example.com", isProven: false });
    expect(["203.0.113.7", "203.0.113.8", "203.0.113.9", "203.0.113.10"].map((address) => dns.isFresh(address))).toEqual([
      true,
      false,
      true,
      false,
    ]);
    expect(dns.get("203.0.113.8")).toMatchObject({ hostName: "old.example.com", isProven: true });
    expect(dns.get("203.0.113.10")).toBeUndefined();
    expect(dns.get("203.0.113.9")!.validUntilMs - systemClock.monotonicMs()).toBeLessThan(16 * 60_000);
  });

  it("keeps the newest fifty thousand answers", async () => {
    const { dns } = await start(zone({}));
    for (let index = 0; index < 50_010; index++)
      dns.restore(`10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`, "a.example.com", false, 60_000);
    expect(dns.stats).toMatchObject({ cached: 50_000, evicted: 10 });
    expect(dns.get("10.0.0.9")).toBeUndefined();
    expect(dns.get("10.0.0.10")).toBeDefined();
  });

  it("closes at once with queries in flight, and can be closed twice", async () => {
    const { dns } = await start(() => undefined, { timeoutMs: 60_000 });
    for (let index = 0; index < 20; index++) dns.request(`203.0.113.${index}`);
    expect(dns.stats.inFlight).toBe(8);
    await dns[Symbol.asyncDispose]();
    await dns[Symbol.asyncDispose]();
    expect(dns.stats).toMatchObject({ inFlight: 0, queued: 0, failed: 0 });
    dns.request("203.0.113.99");
    expect(dns.stats.queued).toBe(0);
  });
});
