/** How an external address got its name: the host name of a known product, any other host name, or a provider's published range. */
export type EndpointNameMethod = "saas" | "reverse_dns" | "provider_range";

/** What is known of an address outside. */
export interface EndpointName {
  /** For people: a host name, or provider and product such as `AWS S3 (eu-west-1)`. */
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
  /** Wall time after which the name must be asked for again, milliseconds since 1970. */
  expiresAtMs: number;
}

/** What may be done to name one address. */
export interface NameLimits {
  reverseDns: boolean;
  providerRanges: boolean;
  /** How long its name holds at most; null for as long as the settings say. */
  maxCacheMs: number | null;
}

/** Names of addresses outside. Asking never waits: what is not known yet is looked up in the background. */
export interface EndpointNames extends AsyncDisposable {
  /** What is known now; undefined while it is looked up, when nobody knows, or when names are switched off. */
  nameOf(address: string): EndpointName | undefined;
  /**
   * Looks these up in the background, bounded. Known and lately failed ones cost nothing; may be called each few seconds with the same ones.
   * Those in `limits` are named within them, from now on and until they are requested again.
   */
  request(addresses: readonly string[], limits?: ReadonlyMap<string, NameLimits>): void;
}
