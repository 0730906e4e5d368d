/** What the agent keeps, and what is written into it from outside: its store, the audit, OTLP and the log files of services. */

import { dirname } from "node:path";
import type { Logger } from "../base/log.ts";
import type { ResourceStack } from "../base/resource-stack.ts";
import type { AgentConfig } from "../config/index.ts";
import { createOtlpClient, MetricIntake, OtlpIntake, startOtlpServers } from "../otlp/index.ts";
import type { RedactionRules } from "../redact/index.ts";
import { type AgentStore } from "../store/agent/index.ts";
import { segmentSignals, signals } from "../store/signals/index.ts";
import type { AgentSetting } from "./agent-setting.ts";
import { AuditLog } from "./audit/audit-log.ts";
import { type HealingStoreOptions, openHealingStore } from "./healing-store.ts";
import { LogPatterns } from "./otlp/log-patterns.ts";
import { LogTails } from "./otlp/log-tails.ts";

/** Nothing is received before `otlp.start()`. `onRenewed`: the store was damaged and began anew. */
export async function openAgentData(setting: AgentSetting, onRenewed: () => void, stack: ResourceStack) {
  const { paths, owner, clock, log } = setting;
  const logPatterns = new LogPatterns(clock);
  const otlp = stack.use(
    new OtlpIntake({
      config: setting.config.otlp,
      doors: { listen: startOtlpServers, connect: createOtlpClient },
      patterns: logPatterns.intake,
      ...(setting.onOtlpLoad && { onLoad: setting.onOtlpLoad }),
      clock,
      log: log.child("otlp"),
    }),
  );
  const store = await openStore(setting, otlp, { onRenewed, beforePrune: (_signal, range) => auditLog.beforePrune(range) });
  stack.defer(() => store.close());
  reportRecovery(store, log);
  const auditLog = stack.use(
    await AuditLog.open({
      store,
      journalFile: `${paths.directory}/audit-journal.jsonl`,
      owner,
      headFile: `${paths.directory}/audit-head.json`,
      redaction: () => redactionOf(setting.config),
      clock,
      log: log.child("audit"),
    }),
  );
  await logPatterns.load(store);
  const logTails = stack.use(
    new LogTails({
      services: () => setting.config.logs,
      segments: () => store.segments,
      file: `${paths.directory}/log-positions.json`,
      owner,
      hostName: setting.hostname,
      clock,
      log: log.child("logs"),
    }),
  );
  return { store, auditLog, otlp, metricIntake: new MetricIntake({ store, clock }), logPatterns, logTails };
}

export type AgentData = Awaited<ReturnType<typeof openAgentData>>;

type StoreEvents = Pick<HealingStoreOptions, "onRenewed" | "beforePrune">;

function openStore({ config, paths, engine, clock, log }: AgentSetting, { pool }: OtlpIntake, events: StoreEvents): Promise<AgentStore> {
  return openHealingStore(engine, {
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
  log.error(`The store was damaged (${store.opened.reason}) and was started anew; the damaged file is kept`, {
    movedTo: store.opened.movedTo,
  });
}

/** What is secret besides what is always taken out. */
function redactionOf({ serviceDiscovery: { redaction } }: AgentConfig): RedactionRules {
  return { names: redaction.names, patterns: redaction.patterns.map((source) => new RegExp(source)) };
}
