/** Where providers publish their address lists, for `coral network ranges update`. Data and checks only; the CLI downloads. */

import { CoralError } from "../../../base/errors.ts";
import { type ProviderRanges, parseProviderRanges } from "./provider-ranges.ts";
import type { RangeFormat } from "./range-formats.ts";

export interface PublishedRanges {
  /** Id on the command line: `aws`. */
  id: string;
  provider: string;
  /** Name in the colony's `ranges` directory. */
  file: string;
  /** URL of the list, or of a page that links to it; see `link`. HTTPS only. */
  url: string;
  /** Azure's list gets a new URL each week, found only on a page. The first group matches the list's URL. */
  link?: RegExp;
  format: RangeFormat;
  /** Well below what was ever published: a shorter list is an error page or truncated. */
  minPrefixes: number;
}

export const publishedRanges: readonly PublishedRanges[] = [
  {
    id: "aws",
    provider: "AWS",
    file: "aws.json",
    url: "https://ip-ranges.amazonaws.com/ip-ranges.json",
    format: "aws",
    minPrefixes: 1_000,
  },
  {
    id: "google-cloud",
    provider: "Google Cloud",
    file: "google-cloud.json",
    url: "https://www.gstatic.com/ipranges/cloud.json",
    format: "google",
    minPrefixes: 100,
  },
  {
    id: "google",
    provider: "Google",
    file: "google.json",
    url: "https://www.gstatic.com/ipranges/goog.json",
    format: "google",
    minPrefixes: 20,
  },
  {
    id: "azure",
    provider: "Azure",
    file: "azure.json",
    url: "https://www.microsoft.com/en-us/download/details.aspx?id=56519",
    link: /(https:\/\/download\.microsoft\.com\/download\/[\w/-]{1,200}\/ServiceTags_Public_\d{8}\.json)/,
    format: "azure",
    minPrefixes: 1_000,
  },
  {
    id: "cloudflare",
    provider: "Cloudflare",
    file: "cloudflare.json",
    url: "https://api.cloudflare.com/client/v4/ips",
    format: "cloudflare",
    minPrefixes: 10,
  },
  {
    id: "fastly",
    provider: "Fastly",
    file: "fastly.json",
    url: "https://api.fastly.com/public-ip-list",
    format: "fastly",
    minPrefixes: 10,
  },
];

/** URL of the list in the page fetched from `url`. Throws `unavailable` when there is none. */
export function findPublishedLink(published: PublishedRanges, page: string): string {
  const found = published.link?.exec(page)?.[1];
  if (found !== undefined) return found;
  throw new CoralError({
    code: "unavailable",
    message: `Cannot find the list of ${published.provider}: no link on ${published.url}; download the list with a browser and pass it with --file`,
  });
}

/** Checks format, provider and size of a downloaded list. Throws `invalid`. */
export function parsePublishedRanges(published: PublishedRanges, text: string): ProviderRanges {
  const parsed = parseProviderRanges(text, published.file);
  const wrong =
    parsed.format !== published.format || parsed.provider !== published.provider
      ? `it is a list of ${parsed.provider} in the format "${parsed.format}"`
      : parsed.count < published.minPrefixes
        ? `it holds ${parsed.count} ranges, and ${published.provider} publishes at least ${published.minPrefixes}`
        : undefined;
  if (wrong === undefined) return parsed;
  throw new CoralError({
    code: "invalid",
    message: `Cannot use ${published.url} as the list of ${published.provider}: ${wrong}`,
  });
}
