/** The `scrape` section: Prometheus endpoints to scrape. */

import * as z from "zod";
import { duration, section, size, text } from "../schema/schema-parts.ts";

const maxTargets = 50;
const address = /^https?:\/\/[^\s,]+$/;

export const agentScrapeSection = section({
  interval: duration("How often targets are scraped", { min: "1s", max: "10m" }).prefault("30s"),
  timeout: duration("Timeout of one scrape", { min: "100ms", max: "1m" }).prefault("5s"),
  max_body: size("Largest accepted response of a target", { min: "64KiB", max: "64MiB" }).prefault("8MiB"),
  targets: z
    .record(
      z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$/, "write a service name, such as api"),
      text("URL of its metrics; separate several with commas").refine(
        (value) => addressesIn(value).every((url) => address.test(url) && URL.canParse(url)),
        "write a URL such as http://127.0.0.1:9100/metrics",
      ),
    )
    .refine((targets) => Object.values(targets).flatMap(addressesIn).length <= maxTargets, `list at most ${maxTargets} addresses`)
    .meta({
      kind: "map of text",
      description: "Services to scrape in the Prometheus text format, with their URLs, such as node: http://127.0.0.1:9100/metrics",
    })
    .prefault({}),
});

export interface ScrapeTarget {
  service: string;
  url: string;
}

export interface AgentScrapeConfig {
  intervalMs: number;
  timeoutMs: number;
  maxBodyBytes: number;
  targets: ScrapeTarget[];
}

export function toAgentScrape(file: z.output<typeof agentScrapeSection>): AgentScrapeConfig {
  return {
    intervalMs: file.interval,
    timeoutMs: file.timeout,
    maxBodyBytes: file.max_body,
    targets: Object.entries(file.targets).flatMap(([service, value]) => addressesIn(value).map((url) => ({ service, url }))),
  };
}

function addressesIn(value: string): string[] {
  return value.split(",").map((url) => url.trim());
}
