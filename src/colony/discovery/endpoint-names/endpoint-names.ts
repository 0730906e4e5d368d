/** How an external address got its name: the host name of a known product, any other host name, or a provider's published range. */
export type EndpointNameMethod = "saas" | "reverse_dns" | "provider_range";

/** The name of an external address. */
export interface EndpointName {
  /** For display: a host name, or provider and product such as `AWS S3 (eu-west-1)`. */
  name: string;
  method: EndpointNameMethod;
  /** 0..1 */
  confidence: number;
  /** Such as `AWS`, `Cloudflare`, `Stripe`. */
  provider?: string;
  /** Such as `S3`, `CloudFront`, `Stripe API`. */
  product?: string;
  /** Such as `eu-west-1`. */
  region?: string;
  /** When the name must be resolved again, milliseconds since 1970. */
  expiresAtMs: number;
}

/** Which sources may name an address, and for how long. */
export interface NameLimits {
  reverseDns: boolean;
  providerRanges: boolean;
  /** Upper bound of the name's lifetime; null: only the settings bound it. */
  maxCacheMs: number | null;
}

/** Names of external addresses. Never blocks: unknown names are resolved in the background. */
export interface EndpointNames extends AsyncDisposable {
  /** The name known now; undefined while it is being resolved, when there is none, or when naming is disabled. */
  nameOf(address: string): EndpointName | undefined;
  /**
   * Resolves addresses in the background, within bounds. Known and recently failed ones cost nothing, so it may be called every few seconds with the
   * same ones. Those in `limits` are named within them until their next request.
   */
  request(addresses: readonly string[], limits?: ReadonlyMap<string, NameLimits>): void;
}
