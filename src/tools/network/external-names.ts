import type { EdgeEnd } from "../../model/edges.ts";

/** Display name of an external address: product, else host name, else the address. One product has many host names and addresses. */
export function outsideName({ name, resolved }: EdgeEnd): string {
  if (!resolved) return name;
  const { provider, product } = resolved;
  if (provider === null || product === null) return resolved.name;
  return product.toLowerCase().startsWith(provider.toLowerCase()) ? product : `${provider} ${product}`;
}

/** Whether `text` matches: an address, or part of a host name, provider or product. */
export function matchesOutside(end: EdgeEnd, text: string): boolean {
  const wanted = text.toLowerCase();
  if (end.name.toLowerCase() === wanted) return true;
  const { resolved } = end;
  if (!resolved) return false;
  return [outsideName(end), resolved.name, resolved.provider, resolved.product].some(
    (name) => name?.toLowerCase().includes(wanted) === true,
  );
}
