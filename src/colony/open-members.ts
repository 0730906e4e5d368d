/** Opens the membership of the colony: registered agents, their runtimes, revocations, and tokens. */

import type { ColonyStore } from "../store/colony/index.ts";
import type { Authority } from "../transport/index.ts";
import type { ColonyContext } from "./core/colony-context.ts";
import { answersHello } from "./pull/tunnel-host.ts";
import { AgentRegistry } from "./registry/agent-registry.ts";
import { Revocations } from "./registry/revocations.ts";
import { RuntimeRegistry } from "./registry/runtime-registry.ts";
import { TokenStore } from "./registry/token-store.ts";

export async function openMembers(context: ColonyContext, store: ColonyStore, authority: Authority) {
  const { paths, clock } = context;
  const log = context.log.child("registry");
  const thresholds = { ...context.config.health };
  const revocations = await Revocations.open(`${paths.caDirectory}/revoked`);
  const runtimes = await RuntimeRegistry.open({ store, clock, log });
  const { bootId = "" } = context;
  const registry = await AgentRegistry.open({ store, revocations, runtimes, bootId, clock, thresholds, log, isAlive: answersHello });
  const tokens = new TokenStore({
    store,
    clock,
    colonyId: context.config.id,
    caFingerprint: authority.fingerprint,
    endpoints: () => (context.config.advertise.length > 0 ? context.config.advertise : [context.endpoint]),
  });
  return { authority, registry, runtimes, tokens, thresholds };
}

export type Members = Awaited<ReturnType<typeof openMembers>>;
