import { describe, expect, it } from "vitest";
import { CoralError } from "../../../base/errors.ts";
import { SeededRandom } from "../../../base/seeded-random.fixture.ts";
import { type ProviderRanges, parseProviderRanges } from "./provider-ranges.ts";
import { samples } from "./samples.fixture.ts";

/** `range product/region/kind` of every range, in order of the file. */
function rangesOf({ ranges }: ProviderRanges): string[] {
  return (["ipv4", "ipv6"] as const).flatMap((family) => {
    const { count, words, lengths, labels, wordsPerAddress } = ranges[family];
    return Array.from({ length: count }, (_, index) => {
      const bits = [...words.subarray(index * wordsPerAddress, (index + 1) * wordsPerAddress)].map((word) =>
        word.toString(16).padStart(8, "0"),
      );
      const { provider, product, region, borderGroup, kind } = ranges.labels[labels[index]!]!;
      return [`${bits.join("")}/${lengths[index]}`, provider, product ?? "-", region ?? "-", borderGroup ?? "-", kind].join(" ");
    });
  });
}

function refusal(text: string, file = "x.json"): string {
  try {
    parseProviderRanges(text, file);
  } catch (error) {
    expect(error).toBeInstanceOf(CoralError);
    expect((error as CoralError).code).toMatch(/^(?:invalid|exhausted)$/);
    return (error as CoralError).message;
  }
  throw new Error("it was read");
}

describe("parseProviderRanges()", () => {
  it("reads AWS with service, region and border group", () => {
    const parsed = parseProviderRanges(samples.aws, "aws.json");
    expect(parsed).toMatchObject({ format: "aws", provider: "AWS", count: 7, publishedAtMs: Date.UTC(2026, 9, 2, 3, 4, 5) });
    expect(rangesOf(parsed)).toEqual([
      "03058c00/22 AWS - ap-northeast-2 - provider",
      "03058c00/22 AWS S3 ap-northeast-2 - service",
      "03058c00/22 AWS EC2 ap-northeast-2 - compute",
      "0fdc0000/20 AWS EC2 us-west-2 us-west-2-lax-1 compute",
      "36e60000/16 AWS CloudFront - - service",
      "2a05d07ac00000000000000000000000/40 AWS S3 eu-south-1 - service",
      "26001f14fff0f8000000000000000000/56 AWS Route 53 Health Checks us-west-2 - service",
    ]);
  });

  it("reads Google's cloud.json and goog.json", () => {
    const cloud = parseProviderRanges(samples.googleCloud, "cloud.json");
    expect(cloud).toMatchObject({ format: "google", provider: "Google Cloud", publishedAtMs: Date.parse("2026-06-01T13:03:25.432Z") });
    expect(rangesOf(cloud)).toEqual([
      "22500000/15 Google Cloud - us-central1 - compute",
      "22a00000/16 Google Cloud - - - compute",
      "26001900400000000000000000000000/44 Google Cloud - europe-west1 - compute",
    ]);
    expect(rangesOf(parseProviderRanges(samples.google, "goog.json"))).toEqual([
      "08080800/24 Google - - - provider",
      "20014860000000000000000000000000/32 Google - - - provider",
    ]);
  });

  it("reads Azure's service tags", () => {
    const parsed = parseProviderRanges(samples.azure, "ServiceTags_Public_20260413.json");
    expect(parsed).toMatchObject({ format: "azure", provider: "Azure", count: 6 });
    expect(rangesOf(parsed)).toEqual([
      "0d410000/16 Azure - - - provider",
      "0d410000/16 Azure - westeurope - provider",
      "0d416b20/28 Azure Storage - - service",
      "34efd800/23 Azure Storage australiacentral - service",
      "0d6bf600/24 Azure Front Door - - service",
      "26031030000100020000000000000440/122 Azure App Service Management - - service",
    ]);
  });

  it("derives words from unknown codes", () => {
    const entry = (service: string): string => `{"ip_prefix":"1.2.3.0/24","region":"GLOBAL","service":"${service}"}`;
    const aws = parseProviderRanges(`{"prefixes":[${["KINESIS_VIDEO_STREAMS", "AMAZON_CONNECT", "constructor"].map(entry)}]}`, "a.json");
    expect(aws.ranges.labels.map(({ product }) => product)).toEqual(["Kinesis Video Streams", "Connect", "constructor"]);
    const tags = ["AzureKeyVault.WestUS", "toString", "AzureBotService"].map((name) => ({
      name,
      properties: { region: "", addressPrefixes: ["1.2.3.0/24"] },
    }));
    const azure = parseProviderRanges(JSON.stringify({ values: tags }), "z.json");
    expect(azure.ranges.labels.map(({ product }) => product)).toEqual(["Key Vault", "to String", "Bot Service"]);
  });

  it("reads Cloudflare's API answer, Cloudflare's lists and Fastly's list", () => {
    expect(rangesOf(parseProviderRanges(samples.cloudflare, "c.json"))).toEqual([
      "adf53000/20 Cloudflare - - - service",
      "2400cb00000000000000000000000000/32 Cloudflare - - - service",
    ]);
    expect(rangesOf(parseProviderRanges("173.245.48.0/20\r\n\r\n103.21.244.0/22 # second\n", "/tmp/ips-v4"))).toEqual([
      "adf53000/20 Cloudflare - - - service",
      "6715f400/22 Cloudflare - - - service",
    ]);
    expect(rangesOf(parseProviderRanges(samples.fastly, "fastly.json"))).toEqual([
      "17eb2000/20 Fastly - - - service",
      "2a044e40000000000000000000000000/32 Fastly - - - service",
    ]);
  });

  it("names the provider of other plain lists after the file", () => {
    expect(rangesOf(parseProviderRanges("# ours\n10.8.0.0/16\n192.0.2.7\n2001:db8::1", "acme-office.txt"))).toEqual([
      "0a080000/16 acme-office - - - service",
      "c0000207/32 acme-office - - - service",
      "20010db8000000000000000000000001/128 acme-office - - - service",
    ]);
    expect(refusal("10.8.0.0/16", "\u001b[31m.txt")).toMatch(/names its provider by its file name/);
  });

  it("ignores a byte order mark", () => {
    expect(parseProviderRanges(`\ufeff${samples.fastly}`, "f.json").count).toBe(2);
  });

  it.each<[string, string, RegExp]>([
    ["nothing", " \n ", /"x.json": it is empty/],
    ["a web page", "<!doctype html><p>Sign in", /line 1, "<!doctype html><p>Sign in" is not an address range; supported: AWS/],
    ["a cut-off file", samples.aws.slice(0, -40), /at line 1 column \d+, truncated JSON/],
    ["a list of JSON", '["10.0.0.0/8"]', /unknown JSON format; supported: AWS ip-ranges.json, Google/],
    ["other JSON", '{"ranges":["10.0.0.0/8"]}', /unknown JSON format/],
    ["Google's shape from another provider", '{"creationTime":"x","prefixes":[{"ipv4Prefix":"1.0.0.0/8"}]}', /unknown JSON format/],
    ["no ranges", '{"addresses":[],"ipv6_addresses":[]}', /it contains no ranges/],
    ["no range", '{"addresses":["1.2.3.0/24","nope"],"ipv6_addresses":[]}', /at addresses\[1\], "nope" is not an address range/],
    ["a number", '{"addresses":[7],"ipv6_addresses":[]}', /at addresses\[0\], a string is missing/],
    ["host bits", '{"addresses":["1.2.3.4/24"],"ipv6_addresses":[]}', /"1.2.3.4\/24" has bits set beyond/],
    ["IPv6 host bits", '{"addresses":[],"ipv6_addresses":["2001:db8::1/64"]}', /bits set beyond/],
    ["too long a prefix", '{"addresses":["1.2.3.4/33"],"ipv6_addresses":[]}', /needs a prefix length of 0 to 32/],
    ["an odd prefix", '{"addresses":["1.2.3.4/+8"],"ipv6_addresses":[]}', /needs a prefix length of 0 to 32/],
    ["the whole internet", '{"addresses":["0.0.0.0/0"],"ipv6_addresses":[]}', /wider than \/4/],
    ["a missing list", '{"result":{"ipv4_cidrs":["1.0.0.0/8"]}}', /at result.ipv6_cidrs, a list is missing/],
    ["an entry that is no object", '{"createDate":"x","prefixes":[5]}', /at prefixes\[0\], an object is missing/],
    ["no service", '{"prefixes":[{"ip_prefix":"1.0.0.0/8","region":"r"}]}', /at prefixes\[0\].service, a string is missing/],
    ["escape codes", '{"prefixes":[{"ip_prefix":"1.0.0.0/8","region":"r","service":"\\u001b[2J"}]}', /service, the string is too long/],
    [
      "tags without properties",
      '{"values":[{"name":"a","properties":{"addressPrefixes":[]}},{"name":"b"}]}',
      /values\[1\].properties, an object/,
    ],
    ["a bad line", "10.0.0.0/8\n\n10.300.0.0/16\n", /at line 3, "10.300.0.0\/16" is not an address range$/],
    ["a hostile line", "10.0.0.0/8\n\u001b]0;owned\u0007\n", /at line 2, "\?\]0;owned\?" is not/],
  ])("rejects %s with its position", (_what, text, message) => {
    expect(refusal(text)).toMatch(message);
  });

  it("reports line and column of broken JSON", () => {
    expect(refusal('{"addresses": ["1.0.0.0/8",],\n "x"}')).toMatch(/"x.json": at line 1 column 28, not valid JSON/);
  });

  it("rejects more than half a million ranges", () => {
    const many = JSON.stringify({ addresses: Array.from({ length: 500_001 }, () => "1.2.3.4"), ipv6_addresses: [] });
    expect(refusal(many)).toMatch(/at addresses\[500000\], the file has more than 500000 ranges/);
  });

  it.each(Object.entries(samples))("accepts or rejects every seeded mutation of the %s sample without crashing", (name, sample) => {
    const random = new SeededRandom(name.length * 7_919);
    const outcomes = { read: 0, refused: 0 };
    for (let round = 0; round < 1_500; round++) {
      const text = random.below(2) === 0 ? mutateText(random, sample) : mutateJson(random, sample);
      try {
        const { count, ranges } = parseProviderRanges(text, "f.json");
        expect(count).toBe(ranges.ipv4.count + ranges.ipv6.count);
        for (const label of ranges.labels) expect(Object.values(label).every((value) => /^[\x20-\x7e]*$/.test(value))).toBe(true);
        outcomes.read++;
      } catch (error) {
        if (!(error instanceof CoralError)) throw error;
        expect(error.message).toMatch(/^Cannot read ranges file "f.json": [\x20-\x7e]{1,400}$/);
        outcomes.refused++;
      }
    }
    expect(outcomes.read).toBeGreaterThan(50);
    expect(outcomes.refused).toBeGreaterThan(50);
  });
});

function mutateText(random: SeededRandom, text: string): string {
  let changed = text;
  for (let edits = 1 + random.below(4); edits > 0; edits--) {
    const at = random.below(changed.length + 1);
    const put = random.pick([
      "",
      "0",
      "9",
      "/",
      ".",
      ":",
      '"',
      "{",
      "}",
      "[",
      "]",
      ",",
      "\u0000",
      "\u001b",
      "\u{1f980}",
      "\ud800",
      "-",
      "e9",
      "\n",
    ]);
    changed = changed.slice(0, at) + put + changed.slice(at + random.below(3));
  }
  return changed;
}

/** Replaces a random value with an odd one. */
function mutateJson(random: SeededRandom, text: string): string {
  const strange = [
    "null",
    "0",
    "-1",
    "1e308",
    "true",
    '""',
    '"x"',
    '"::/12"',
    '"0.0.0.0/4"',
    '"\\u0007"',
    `"${"a".repeat(200)}"`,
    "[]",
    "{}",
    "[[]]",
    '{"__proto__":1}',
    '["1.0.0.0/8"]',
  ];
  const odd = (): unknown => JSON.parse(random.pick(strange));
  return JSON.stringify(JSON.parse(text), (_key, value: unknown) => (random.below(40) === 0 ? odd() : value)) ?? "null";
}
