/** Roles of the live world, with names and ports from a seed: no result may depend on the name of a service. */

import { Dice } from "../health-world.ts";

export const roles = [
  "nginx",
  "gateway",
  "catalog",
  "redis",
  "orders",
  "postgres",
  "payments",
  "provider",
  "worker",
  "mailer",
  "load",
  "edge",
  "resolver",
] as const;

export type Role = (typeof roles)[number];

/** Calls between roles: a fault also shows at the callers. */
export const calls: Partial<Record<Role, readonly Role[]>> = {
  load: ["nginx"],
  nginx: ["gateway"],
  gateway: ["catalog", "orders", "payments"],
  catalog: ["redis"],
  orders: ["postgres", "redis"],
  payments: ["provider", "edge", "resolver"],
  edge: ["provider"],
  worker: ["redis", "mailer"],
};

/** All that call it, directly or through others. */
export function callersOf(role: Role): Set<Role> {
  const found = new Set<Role>();
  const visit = (callee: Role): void => {
    for (const caller of roles)
      if (calls[caller]?.includes(callee) && !found.has(caller)) {
        found.add(caller);
        visit(caller);
      }
  };
  visit(role);
  return found;
}

const words = ["amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heron", "indigo", "juniper", "kestrel", "larch", "maple"];

/** Well-known servers are named after their program. */
const ownName: ReadonlySet<Role> = new Set(["nginx", "redis", "postgres"]);

/** Names chosen by the seed, so that no result depends on a name. */
export function namesOf(seed: number): Record<Role, string> {
  const dice = new Dice(seed);
  const left = [...words];
  const pick = (): string => left.splice(Math.floor(dice.between(0, left.length)), 1)[0] ?? "";
  return Object.fromEntries(roles.map((role) => [role, ownName.has(role) ? role : `${pick()}-${suffix[role] ?? role}`])) as Record<
    Role,
    string
  >;
}

/** Names that do not reveal the role. */
const suffix: Partial<Record<Role, string>> = {
  gateway: "web",
  catalog: "items",
  orders: "desk",
  payments: "till",
  provider: "bank",
  edge: "relay",
  resolver: "names",
};

/** Distinct ports outside the ephemeral range. A port in use shows when its program starts. */
export function portsOf(seed: number): Record<Role, number> {
  const dice = new Dice(seed + 1);
  const chosen = new Set<number>();
  while (chosen.size < roles.length) chosen.add(Math.floor(dice.between(20_000, 30_000)));
  const list = [...chosen];
  return Object.fromEntries(roles.map((role, index) => [role, list[index] ?? 0])) as Record<Role, number>;
}
