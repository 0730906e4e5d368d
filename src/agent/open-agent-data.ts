/** Opens the agent's store and audit, and what writes to the store from outside: OTLP and log files. */

import { dirname } from "node:path";
import { background } from "../base/background.ts";
import type { Logger } from "../base/log.ts";
import type { ResourceStack } from "../base/resource-stack.ts";
import type { AgentConfig } from "../config/index.ts";
import { createOtlpClient, MetricIntake, OtlpIntake, startOtlpServers } from "../otlp/index.ts";
import type { RedactionRules } from "../redact/index.ts";
import { type AgentStore } from "../store/agent/index.ts";
import { event, segmentSignals, signals } from "../store/signals/index.ts";
import type { AgentContext } from "./agent-context.ts";
import { AuditLog } from "./audit/audit-log.ts";
import { LogPatterns } from "./otlp/log-patterns.ts";
import { LogTails } from "./otlp/log-tails.ts";
import { openRecoveringStore, type RecoveringStoreOptions } from "./recovering-store.ts";
import { StoreHealth } from "./store-health.ts";

/** Nothing is received before `otlp.start()`. Calls `onReplaced` when a damaged store was replaced. */
export async function openAgentData(context: AgentContext, onReplaced: () => void, stack: ResourceStack) {
  const { paths, owner, clock, log } = context;
  const logPatterns = new LogPatterns(clock);
  const otlp = stack.use(
    new OtlpIntake({
      config: context.config.otlp,
      network: { listen: startOtlpServers, connect: createOtlpClient },
      patterns: logPatterns.intake,
      directory: dirname(paths.databaseFile),
      ...(context.onOtlpLoad && { onLoad: context.onOtlpLoad }),
      clock,
      log: log.child("otlp"),
    }),
  );
  const storeHealth = new StoreHealth({ append: (row) => store.append(event, [row]), clock, log: log.child("store") });
  const store: AgentStore = await openStore(context, otlp, {
    onReplaced: (opened) => {
      onReplaced();
      background(log, "Recording the damage of the store", storeHealth.replaced(opened));
    },
    onStored: (signal) => background(log, "Recording that rows are stored again", storeHealth.stored(signal)),
    onRefused: (signal, failure) => storeHealth.refused(signal, failure),
    beforePrune: (_signal, range) => auditLog.beforePrune(range),
  });
  stack.defer(() => store.close());
  reportRecovery(store, log);
  await storeHealth.replaced(store.opened);
  const auditLog = stack.use(
    await AuditLog.open({
      store,
      journalFile: `${paths.directory}/audit-journal.jsonl`,
      owner,
      headFile: `${paths.directory}/audit-head.json`,
      colonyHeadsFile: `${paths.directory}/audit-colony-heads.json`,
      redaction: () => redactionOf(context.config),
      clock,
      log: log.child("audit"),
    }),
  );
  await logPatterns.load(store);
  const logTails = stack.use(
    new LogTails({
      services: () => context.config.logs,
      segments: () => store.segments,
      file: `${paths.directory}/log-positions.json`,
      owner,
      hostName: context.hostname,
      clock,
      log: log.child("logs"),
    }),
  );
  return { store, storeHealth, auditLog, otlp, metricIntake: new MetricIntake({ store, clock }), logPatterns, logTails };
}

export type AgentData = Awaited<ReturnType<typeof openAgentData>>;

type StoreEvents = Pick<RecoveringStoreOptions, "onReplaced" | "onStored" | "onRefused" | "beforePrune">;

/** A damaged database file is moved aside and replaced by an empty one, so that the agent always starts. */
function openStore({ config, paths, engine, clock, log }: AgentContext, { pool }: OtlpIntake, events: StoreEvents): Promise<AgentStore> {
  return openRecoveringStore(engine, {
    file: paths.databaseFile,
    signals,
    segments: {
      signals: segmentSignals,
      directory: dirname(paths.databaseFile),
      maxBytes: config.store.maxSegmentBytes,
      seal: pool.seal,
      sealConcurrency: config.otlp.workers,
    },
    maxBytes: config.store.maxSizeBytes,
    clock,
    log: log.child("store"),
    ...events,
  });
}
function reportRecovery(store: AgentStore, log: Logger): void {
  if (store.opened.how !== "recovered") return;
  log.error(`store damaged (${store.opened.reason}); replaced by an empty one, the damaged file is kept`, {
    movedTo: store.opened.movedTo,
  });
}

/** Redaction rules of the config, on top of the built-in ones. */
function redactionOf({ serviceDiscovery: { redaction } }: AgentConfig): RedactionRules {
  return { names: redaction.names, patterns: redaction.patterns.map((source) => new RegExp(source)) };
}
