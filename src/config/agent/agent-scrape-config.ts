/** The `scrape` section: programs whose metrics are read as Prometheus reads them. */

import * as z from "zod";
import { duration, section, size, text } from "../schema/schema-parts.ts";

const maxTargets = 50;
const address = /^https?:\/\/[^\s,]+$/;

export const agentScrapeSection = section({
  interval: duration("How often metrics are read", { min: "1s", max: "10m" }).prefault("30s"),
  timeout: duration("Longest wait for one target", { min: "100ms", max: "1m" }).prefault("5s"),
  max_body: size("Largest answer of one target", { min: "64KiB", max: "64MiB" }).prefault("8MiB"),
  targets: z
    .record(
      z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$/, "write the name of a service, such as api"),
      text("Address of its metrics; several are separated by commas").refine(
        (value) => addressesIn(value).every((url) => address.test(url) && URL.canParse(url)),
        "write an address such as http://127.0.0.1:9100/metrics",
      ),
    )
    .refine((targets) => Object.values(targets).flatMap(addressesIn).length <= maxTargets, `there may be at most ${maxTargets} addresses`)
    .meta({
      kind: "map of text",
      description:
        "Services whose metrics are read in Prometheus's text format, with their addresses, such as node: http://127.0.0.1:9100/metrics",
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
