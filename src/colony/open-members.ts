/** Who belongs to the colony: agents that registered, where they run, who was turned away, and the tokens that let others in. */

import type { ColonyStore } from "../store/colony/index.ts";
import type { Authority } from "../transport/index.ts";
import type { ColonySetting } from "./core/colony-setting.ts";
import { answersHello } from "./pull/tunnel-host.ts";
import { AgentRegistry } from "./registry/agent-registry.ts";
import { Revocations } from "./registry/revocations.ts";
import { RuntimeBook } from "./registry/runtime-book.ts";
import { TokenBook } from "./registry/token-book.ts";

export async function openMembers(setting: ColonySetting, store: ColonyStore, authority: Authority) {
  const { paths, clock } = setting;
  const log = setting.log.child("registry");
  const thresholds = { ...setting.config.health };
  const revocations = await Revocations.open(`${paths.caDirectory}/revoked`);
  const runtimes = await RuntimeBook.open({ store, clock, log });
  const registry = await AgentRegistry.open({ store, revocations, runtimes, clock, thresholds, log, isAlive: answersHello });
  const tokens = new TokenBook({
    store,
    clock,
    colonyId: setting.config.id,
    caFingerprint: authority.fingerprint,
    endpoints: () => (setting.config.advertise.length > 0 ? setting.config.advertise : [setting.endpoint]),
  });
  return { authority, registry, runtimes, tokens, thresholds };
}

export type Members = Awaited<ReturnType<typeof openMembers>>;
