/** Who belongs to the colony: agents that registered, where they run, who was turned away, and the tokens that let others in. */

import type { Authority } from "../mesh/index.ts";
import type { ColonyStore } from "../store/index.ts";
import { AgentRegistry } from "./agent-registry.ts";
import type { ColonySetting } from "./colony-setting.ts";
import { Revocations } from "./revocations.ts";
import { RuntimeBook } from "./runtime-book.ts";
import { TokenBook } from "./token-book.ts";
import { answersHello } from "./tunnel-host.ts";

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
