import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../../base/clock.ts";
import { silentLogger } from "../../../base/log.ts";
import {
  createEndpointNames,
  type EndpointNameSettings,
  type EndpointNameStore,
  type EndpointNamesService,
  resolvesPrivateAddresses,
  type StoredEndpointName,
} from "./create-endpoint-names.ts";
import { addressRecord, type DnsServer, dnsReply, ptrTo, recordTypes, startDnsServer } from "./dns-server.fixture.ts";
import type { NameLimits } from "./endpoint-names.ts";

const pointers: Record<string, string> = {
  "7.113.0.203.in-addr.arpa": "lb-prod.example.com",
  "1.64.113.3.in-addr.arpa": "ec2-3-113-64-1.ap-northeast-1.compute.amazonaws.com",
  "2.64.113.3.in-addr.arpa": "api.partner.example",
  "4.121.82.140.in-addr.arpa": "lb-140-82-121-4-fra.github.com",
  "9.9.9.9.in-addr.arpa": "s3.amazonaws.com",
  "5.0.0.10.in-addr.arpa": "db.corp.internal",
};
const aws = JSON.stringify({
  prefixes: [
    { ip_prefix: "3.112.0.0/14", region: "ap-northeast-1", service: "AMAZON" },
    { ip_prefix: "3.112.0.0/14", region: "ap-northeast-1", service: "EC2" },
    { ip_prefix: "52.216.0.0/15", region: "us-east-1", service: "S3" },
  ],
});

let directory = "";
let server: DnsServer;
let aheadMs = 0;
const open: EndpointNamesService[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "coral-names-"));
  await writeFile(join(directory, "aws.json"), aws);
  aheadMs = 0;
  server = await startDnsServer((question) => {
    const name = question.type === recordTypes.PTR ? pointers[question.name] : undefined;
    if (name !== undefined) return dnsReply(question, [ptrTo(name)]);
    return question.name.endsWith("github.com") ? dnsReply(question, [addressRecord("140.82.121.4")]) : dnsReply(question, [], 3);
  });
});

afterEach(async () => {
  for (const names of open.splice(0)) await names[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const settingsOf = (more: Partial<EndpointNameSettings> = {}): EndpointNameSettings => ({
  enabled: true,
  reverseDns: true,
  cloudProviderDetection: true,
  dnsServers: [server.address],
  dnsCacheTtlMs: 3_600_000,
  dnsTimeoutMs: 5_000,
  privateAddresses: false,
  ...more,
});

async function create(more: Partial<EndpointNameSettings> = {}, store?: EndpointNameStore): Promise<EndpointNamesService> {
  const clock = { wallMs: () => systemClock.wallMs() + aheadMs, monotonicMs: () => systemClock.monotonicMs() + aheadMs };
  const names = await createEndpointNames({
    settings: settingsOf(more),
    rangesDirectory: directory,
    clock,
    log: silentLogger,
    ...(store ? { store } : {}),
  });
  open.push(names);
  return names;
}

async function settle(names: EndpointNamesService): Promise<void> {
  await vi.waitFor(() => expect(names.stats().dns).toMatchObject({ queued: 0, inFlight: 0 }), { timeout: 10_000, interval: 5 });
}

const queried = (): string[] => server.questions.filter(({ type }) => type === recordTypes.PTR).map(({ name }) => name);

describe("resolvesPrivateAddresses()", () => {
  it.each([
    [["8.8.8.8"], true, false],
    [["10.0.0.2", "[2606:4700::1111]:53"], true, false],
    [["[fd00::2]:5353", "fd00::3", "10.0.0.2:53", "127.0.0.53", "169.254.169.253"], false, true],
    [[], false, false],
    [[], true, true],
  ])("with servers %j and private addresses allowed: %s, is %s", (dnsServers, isAllowed, isAsked) => {
    expect(resolvesPrivateAddresses({ dnsServers, privateAddresses: isAllowed })).toBe(isAsked);
  });
});

describe("createEndpointNames()", () => {
  it("names addresses by ranges at once, and by DNS when it answers", async () => {
    const names = await create();
    expect(names.nameOf("3.113.64.2")?.name).toBe("AWS EC2 (ap-northeast-1)");
    expect(names.nameOf("3.113.64.2")!.expiresAtMs).toBeLessThan(Date.now() + 31_000);
    expect(names.nameOf("203.0.113.7")).toBeUndefined();
    names.request(["203.0.113.7", "3.113.64.1", "3.113.64.2", "52.216.1.1", "140.82.121.4", "9.9.9.9", "192.0.2.200"]);
    await settle(names);
    const shown = ["203.0.113.7", "3.113.64.1", "3.113.64.2", "52.216.1.1", "140.82.121.4", "9.9.9.9"].map((address) => {
      const found = names.nameOf(address);
      return found && [found.name, found.method, found.provider, found.product, found.region].join(" | ");
    });
    expect(shown).toEqual([
      "lb-prod.example.com | reverse_dns |  |  | ",
      "ec2-3-113-64-1.ap-northeast-1.compute.amazonaws.com | saas | AWS | EC2 | ap-northeast-1",
      "api.partner.example | reverse_dns | AWS |  | ap-northeast-1",
      "AWS S3 (us-east-1) | provider_range | AWS | S3 | us-east-1",
      "lb-140-82-121-4-fra.github.com | saas | GitHub | GitHub | ",
      undefined,
    ]);
    expect(queried()).not.toContain("1.1.216.52.in-addr.arpa");
    const lastsMs = names.nameOf("203.0.113.7")!.expiresAtMs - Date.now();
    expect(lastsMs).toBeGreaterThan(3_500_000);
    expect(lastsMs).toBeLessThanOrEqual(3_600_000);
  });

  it("names single addresses within their limits", async () => {
    const names = await create();
    const limit = (more: object): NameLimits => ({ reverseDns: true, providerRanges: true, maxCacheMs: null, ...more });
    const limits = new Map([
      ["203.0.113.7", limit({ reverseDns: false })],
      ["52.216.1.1", limit({ providerRanges: false, reverseDns: false })],
      ["3.113.64.2", limit({ providerRanges: false, maxCacheMs: 60_000 })],
    ]);
    names.request([...limits.keys()], limits);
    await settle(names);
    expect(queried()).toEqual(["2.64.113.3.in-addr.arpa"]);
    expect(names.nameOf("203.0.113.7")).toBeUndefined();
    expect(names.nameOf("52.216.1.1")).toBeUndefined();
    const found = names.nameOf("3.113.64.2")!;
    expect([found.name, found.provider]).toEqual(["api.partner.example", undefined]);
    expect(found.expiresAtMs - Date.now()).toBeLessThanOrEqual(60_000);
    // A name that was resolved for a request without limits is not shown for one with limits.
    names.request(["203.0.113.7"]);
    await settle(names);
    expect(names.nameOf("203.0.113.7")?.name).toBe("lb-prod.example.com");
    names.request(["203.0.113.7"], limits);
    expect(names.nameOf("203.0.113.7")).toBeUndefined();
    // Resolved again when older than its limit, not before.
    names.request(["3.113.64.2"], limits);
    await settle(names);
    expect(queried()).toHaveLength(2);
    aheadMs += 61_000;
    names.request(["3.113.64.2"], limits);
    await settle(names);
    expect(queried()).toHaveLength(3);
  });

  it("treats other spellings of an address as the same one, NAT64 too", async () => {
    const names = await create();
    names.request(["::ffff:203.0.113.7", "64:ff9b::203.0.113.7", "203.0.113.7"]);
    await settle(names);
    expect(queried()).toEqual(["7.113.0.203.in-addr.arpa"]);
    expect(names.nameOf("::ffff:cb00:7107")?.name).toBe("lb-prod.example.com");
    expect(names.nameOf("64:ff9b::34d8:101")?.name).toBe("AWS S3 (us-east-1)");
  });

  it("never resolves local addresses, nor texts that are not addresses", async () => {
    const names = await create({ privateAddresses: true });
    const addresses = ["127.0.0.1", "::1", "169.254.169.254", "fe80::1", "224.0.0.1", "0.0.0.0", "::", "255.255.255.255", "*", "", "host"];
    names.request(addresses);
    await settle(names);
    expect(server.questions).toEqual([]);
    for (const address of addresses) expect(names.nameOf(address)).toBeUndefined();
  });

  it("queries private servers for private addresses", async () => {
    const names = await create();
    names.request(["10.0.0.5", "fd00::1", "100.64.0.1"]);
    await settle(names);
    expect(names.nameOf("10.0.0.5")?.name).toBe("db.corp.internal");
    expect(queried()).toHaveLength(3);
  });

  it("works without DNS, without ranges, and without both", async () => {
    const names = await create({ reverseDns: false });
    names.request(["203.0.113.7", "3.113.64.1"]);
    expect(names.nameOf("203.0.113.7")).toBeUndefined();
    expect(names.nameOf("3.113.64.1")!.expiresAtMs).toBeGreaterThan(Date.now() + 3_500_000);
    names.reconfigure(settingsOf({ cloudProviderDetection: false }));
    expect(names.nameOf("52.216.1.1")).toBeUndefined();
    names.request(["203.0.113.7"]);
    await settle(names);
    expect(names.nameOf("203.0.113.7")?.name).toBe("lb-prod.example.com");
    names.reconfigure(settingsOf({ enabled: false }));
    names.request(["203.0.113.8"]);
    expect(names.nameOf("203.0.113.7")).toBeUndefined();
    expect(queried()).toHaveLength(1);
    expect(names.problems()).toEqual([]);
  });

  it("rejects DNS servers that are not addresses", async () => {
    await expect(create({ dnsServers: ["dns.example.com"] })).rejects.toThrow(/Cannot use DNS servers/);
    const names = await create();
    expect(() => names.reconfigure(settingsOf({ enabled: false, dnsServers: ["nope"] }))).toThrow(/Cannot use DNS servers/);
    expect(names.nameOf("52.216.1.1")?.name).toBe("AWS S3 (us-east-1)");
  });

  it("loads changed ranges with the next request, and reports a bad file", async () => {
    const names = await create();
    await writeFile(join(directory, "aws.json"), aws.replace("52.216.0.0/15", "52.218.0.0/17"));
    await writeFile(join(directory, "bad.json"), "{}");
    names.request([]);
    expect(names.nameOf("52.216.1.1")?.product).toBe("S3");
    aheadMs += 31_000;
    names.request([]);
    await vi.waitFor(() => expect(names.nameOf("52.218.1.1")?.product).toBe("S3"));
    expect(names.nameOf("52.216.1.1")).toBeUndefined();
    expect(names.problems()).toEqual([expect.stringMatching(/^Cannot read ranges file "bad.json": unknown JSON format/)]);
    expect(names.stats().ranges).toMatchObject({ prefixes: 3, files: [{ file: "aws.json" }, { file: "bad.json", prefixes: 0 }] });
  });

  it("keeps names over restarts", async () => {
    const rows = new Map<string, StoredEndpointName>();
    let isBroken = true;
    const store: EndpointNameStore = {
      load: async () => [...rows.values()],
      save: async (names) => {
        if (isBroken) throw new Error("disk full");
        for (const row of names) rows.set(row.address, row);
      },
    };
    const first = await create({}, store);
    first.request(["203.0.113.7", "140.82.121.4", "9.9.9.9", "3.113.64.77"]);
    await settle(first);
    await vi.waitFor(() => expect(first.problems()).toEqual(["Cannot save names of external addresses: disk full"]));
    isBroken = false;
    await first[Symbol.asyncDispose]();
    expect([...rows.values()].map(({ address, name, method }) => [address, name, method]).sort()).toEqual([
      ["140.82.121.4", "lb-140-82-121-4-fra.github.com", "saas"],
      ["203.0.113.7", "lb-prod.example.com", "reverse_dns"],
      ["3.113.64.77", "AWS EC2 (ap-northeast-1)", "provider_range"],
      ["9.9.9.9", null, null],
    ]);
    const before = queried().length;
    const second = await create({}, store);
    expect(second.nameOf("203.0.113.7")?.name).toBe("lb-prod.example.com");
    expect(second.nameOf("140.82.121.4")).toMatchObject({ method: "saas", product: "GitHub" });
    second.request(["203.0.113.7", "140.82.121.4", "9.9.9.9"]);
    await settle(second);
    expect(queried()).toHaveLength(before);
  });

  it("resolves and saves nothing once it is closed", async () => {
    const names = await create();
    await names[Symbol.asyncDispose]();
    await names[Symbol.asyncDispose]();
    names.request(["203.0.113.7"]);
    expect(names.stats().dns).toMatchObject({ queued: 0, inFlight: 0 });
  });
});
