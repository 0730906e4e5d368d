/** Picks the most specific trustworthy name for an address. */

import { given } from "../../../base/given.ts";
import type { RangeLabel } from "../../../tools/index.ts";
import type { EndpointName } from "./endpoint-names.ts";
import { findSaasHost, type SaasHost } from "./saas-hosts.ts";

export interface AddressFacts {
  /** From reverse DNS. */
  hostName?: string | undefined;
  /** Whether the host name resolves back to the address. */
  isProven?: boolean;
  range?: RangeLabel | undefined;
}

/** A name without its expiry, which depends on its origin. */
export type ChosenName = Omit<EndpointName, "expiresAtMs">;

/**
 * Most specific first: a range of one service, the host name of a product, any other host name, the host name of a rented machine, a range of
 * machines, a range of a provider. The owner of an address may name it `s3.amazonaws.com`, so a product's host name is used only if it resolves back to
 * the address, or if the address is in a range of that provider.
 */
export function chooseName({ hostName, isProven = false, range }: AddressFacts): ChosenName | undefined {
  if (range?.kind === "service") return ofRange(range, 0.9);
  const saas = hostName === undefined ? undefined : findSaasHost(hostName);
  if (hostName !== undefined && !saas) return { name: hostName, method: "reverse_dns", confidence: 0.6, ...placeOf(range) };
  if (hostName !== undefined && saas && (isProven || isOfProvider(saas, range))) return ofSaas(hostName, saas, range);
  return range && ofRange(range, range.kind === "compute" ? 0.8 : 0.7);
}

/** Whether a host name may be used only if it resolves back to the address. */
export function needsProof(hostName: string, range: RangeLabel | undefined): boolean {
  const saas = findSaasHost(hostName);
  return saas !== undefined && !isOfProvider(saas, range);
}

function ofSaas(hostName: string, saas: SaasHost, range: RangeLabel | undefined): ChosenName {
  const region = saas.region ?? range?.region;
  return {
    name: hostName,
    method: "saas",
    confidence: saas.isMachine ? 0.8 : 0.9,
    provider: saas.provider,
    ...given({ product: saas.product, region }),
  };
}

function ofRange(range: RangeLabel, confidence: number): ChosenName {
  const { provider, product, region } = range;
  const what = product === undefined ? provider : `${provider} ${product}`;
  return {
    name: region === undefined ? what : `${what} (${region})`,
    method: "provider_range",
    confidence,
    ...placeOf(range),
    ...(product === undefined ? {} : { product }),
  };
}

function placeOf(range: RangeLabel | undefined): { provider?: string; region?: string } {
  if (!range) return {};
  return { provider: range.provider, ...(range.region === undefined ? {} : { region: range.region }) };
}

/** Treats `Google` and `Google Cloud` as one provider. */
function isOfProvider(saas: SaasHost, range: RangeLabel | undefined): boolean {
  return range !== undefined && saas.provider.split(" ")[0] === range.provider.split(" ")[0];
}
