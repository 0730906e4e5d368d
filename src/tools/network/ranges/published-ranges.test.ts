import { describe, expect, it } from "vitest";
import { findPublishedLink, type PublishedRanges, parsePublishedRanges, publishedRanges } from "./published-ranges.ts";
import { samples } from "./samples.fixture.ts";

const published = (id: string): PublishedRanges => publishedRanges.find((entry) => entry.id === id)!;

describe("publishedRanges", () => {
  it("have unique files and ids, and HTTPS addresses", () => {
    expect(new Set(publishedRanges.map(({ id }) => id)).size).toBe(publishedRanges.length);
    expect(new Set(publishedRanges.map(({ file }) => file)).size).toBe(publishedRanges.length);
    for (const { url, file } of publishedRanges) {
      expect(url).toMatch(/^https:\/\//);
      expect(file).toMatch(/^[a-z-]+\.json$/);
    }
  });
});

describe("findPublishedLink()", () => {
  const list = "https://download.microsoft.com/download/7/1/d/71d86715-5596-4529-9b13-da13a5de5b63/ServiceTags_Public_20260413.json";

  it("finds Azure's list in its page", () => {
    expect(findPublishedLink(published("azure"), `<a class="x" href="${list}">Download</a>`)).toBe(list);
  });

  it.each(["<p>nothing", `<a href="https://evil.example/ServiceTags_Public_20260413.json">`, list.replace("https", "http")])(
    "rejects a page with %s",
    (page) => {
      expect(() => findPublishedLink(published("azure"), page)).toThrow(/Cannot find the list of Azure: .* pass it with --file/);
    },
  );
});

describe("parsePublishedRanges()", () => {
  it("accepts a list of the right provider and size", () => {
    expect(parsePublishedRanges({ ...published("aws"), minPrefixes: 7 }, samples.aws).count).toBe(7);
  });

  it("rejects a list of another provider, and one that is too short", () => {
    expect(() => parsePublishedRanges(published("google"), samples.googleCloud)).toThrow(
      /as the list of Google: it is a list of Google Cloud/,
    );
    expect(() => parsePublishedRanges(published("cloudflare"), samples.fastly)).toThrow(/it is a list of Fastly in the format "fastly"/);
    expect(() => parsePublishedRanges(published("aws"), samples.aws)).toThrow(/it holds 7 ranges, and AWS publishes at least 1000/);
  });
});
