import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import type { MetricPoint } from "../../otlp/index.ts";
import { Scraper } from "./scraper.ts";

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`;
}

function scraperOf(urls: string[], over: { timeoutMs?: number; maxBodyBytes?: number } = {}) {
  const points: MetricPoint[] = [];
  const lost: [string, string, number][] = [];
  const scraper = new Scraper({
    config: () => ({
      intervalMs: 1_000,
      timeoutMs: 20_000,
      maxBodyBytes: 64 * 1024,
      ...over,
      targets: urls.map((url, index) => ({ service: `s${index}`, url })),
    }),
    intake: {
      store: async (more) => {
        points.push(...more);
        return { rejected: 0, message: "" };
      },
      lose: (service, loss, count) => void lost.push([service, loss, count]),
    },
    clock: systemClock,
    log: silentLogger,
  });
  const valueOf = (service: string, name: string): number | undefined =>
    points.find((point) => point.service === service && point.name === name)?.value;
  return { scraper, points, lost, valueOf };
}

const signal = new AbortController().signal;

describe("Scraper", () => {
  it("scrapes targets concurrently, and reports whether each is up", async () => {
    const good = await serve((request, answer) =>
      answer.end(`# TYPE hits counter\nhits{accept="${request.headers.accept?.slice(0, 10)}"} 3\nbad line here\n`),
    );
    const broken = await serve((_request, answer) => answer.writeHead(500).end());
    const { scraper, lost, valueOf, points } = scraperOf([good, broken, "http://127.0.0.1:1/metrics"]);
    await scraper.collect(signal);
    expect(valueOf("s0", "hits")).toBe(3);
    expect(points.find(({ name }) => name === "hits")).toMatchObject({
      attributes: '{"accept":"text/plain"}',
      serviceInstance: new URL(good).host,
      kind: "sum",
    });
    expect([0, 1, 2].map((index) => valueOf(`s${index}`, "up"))).toEqual([1, 0, 0]);
    // Always kept, even above the sample limit.
    expect(points.filter(({ service }) => service === "s0").map(({ name }) => name)).toEqual(["up", "scrape_duration_seconds", "hits"]);
    expect(valueOf("s1", "scrape_duration_seconds")).toBeGreaterThanOrEqual(0);
    expect(lost.sort()).toEqual([
      ["s0", "unusable", 1],
      ["s1", "scrape-failed", 1],
      ["s2", "scrape-failed", 1],
    ]);
    expect(scraper.notes().sort()).toEqual([expect.stringContaining("ECONNREFUSED"), `Cannot read ${broken}: it returned HTTP 500`]);
  });

  it("ends series that a target no longer exposes, all of them when it fails, and those of a target that is no longer listed", async () => {
    let body =
      '# TYPE a gauge\na{x="1"} 1\na{x="2"} 2\n# TYPE h histogram\nh_bucket{le="+Inf"} 1\nh_count 1\nh_sum 1\nold 1 1700000000000\n';
    const url = await serve((_request, answer) => (body === "" ? answer.writeHead(500).end() : answer.end(body)));
    const urls = [url];
    const { scraper, points } = scraperOf(urls);
    const ends = async (): Promise<string[]> => {
      points.length = 0;
      await scraper.collect(signal);
      for (const point of points.filter(({ hasNoValue }) => hasNoValue)) expect([point.value, point.count]).toEqual([undefined, undefined]);
      return points.filter(({ hasNoValue }) => hasNoValue).map(({ name, attributes }) => `${name}${attributes}`);
    };
    expect(await ends()).toEqual([]);
    expect(await ends()).toEqual([]);
    body = '# TYPE a gauge\na{x="2"} 3\n';
    expect((await ends()).sort()).toEqual(['a{"x":"1"}', "h{}"]);
    expect(await ends()).toEqual([]);
    body = "";
    expect(await ends()).toEqual(['a{"x":"2"}']);
    expect(await ends()).toEqual([]);
    body = "b 1\n";
    expect(await ends()).toEqual([]);
    urls.length = 0;
    expect((await ends()).sort()).toEqual(["b{}", "scrape_duration_seconds{}", "up{}"]);
    expect(await ends()).toEqual([]);
  });

  it("enforces the timeout and the size limit", async () => {
    const slow = await serve(() => undefined);
    const endless = await serve((_request, answer) => {
      const write = (): void => {
        while (answer.write("a 1\n".repeat(1_000))) if (answer.destroyed) return;
        answer.once("drain", write);
      };
      write();
    });
    const { scraper, valueOf } = scraperOf([slow, endless], { timeoutMs: 2_000, maxBodyBytes: 64 * 1024 });
    await scraper.collect(signal);
    expect([valueOf("s0", "up"), valueOf("s1", "up")]).toEqual([0, 0]);
    expect(scraper.notes()[0]).toMatch(/no response within 2000 ms|more than 65536 bytes/);
    expect(scraper.notes().join()).toContain("more than 65536 bytes");
  });

  it("stores nothing after an abort", async () => {
    const { scraper, points } = scraperOf([await serve(() => undefined)]);
    const stop = new AbortController();
    const collecting = scraper.collect(stop.signal);
    stop.abort();
    await collecting;
    expect(points).toEqual([]);
  });
});
