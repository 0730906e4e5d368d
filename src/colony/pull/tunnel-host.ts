/** Serves a tunnel that an agent opened: says Hello, attaches it to the agent's session, and pulls until it closes. */

import { createClient } from "@connectrpc/connect";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import { fromConnectError, type Tunnel } from "../../transport/index.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";
import type { PullScheduler } from "./pull-scheduler.ts";
import type { SegmentPuller } from "./segment-puller.ts";

const helloTimeoutMs = 5_000;
/** The reason that agents see. */
const stopping = "the colony is stopping";

export interface TunnelHostOptions {
  registry: AgentRegistry;
  scheduler: PullScheduler;
  /** Absent: only tables are pulled. */
  segmentPuller: SegmentPuller | undefined;
  log: Logger;
  signal: AbortSignal;
}

/** Resolves when the tunnel is closed; never rejects because of an agent. */
export async function hostTunnel(tunnel: Tunnel, options: TunnelHostOptions): Promise<void> {
  const { registry, scheduler, segmentPuller, log } = options;
  await using owned = tunnel;
  const ended = new AbortController();
  void owned.closed.then(({ reason }) => ended.abort(new CoralError({ code: "cancelled", message: reason })));
  const signal = AbortSignal.any([ended.signal, options.signal]);
  let sessionId: string;
  try {
    const hello = await createClient(AgentService, tunnel.transport).hello({}, { timeoutMs: helloTimeoutMs, signal });
    sessionId = hello.sessionId;
  } catch (error) {
    if (options.signal.aborted) {
      await tunnel.close(stopping);
      return;
    }
    log.warn(`Agent ${tunnel.agentId} opened a tunnel but did not respond to Hello: ${fromConnectError(error).message}; closing it`);
    await tunnel.close("no response to Hello");
    return;
  }
  const session = registry.attach(sessionId, tunnel);
  if (!session) {
    await tunnel.close("unknown session; register again");
    return;
  }
  log.info(`Agent ${tunnel.agentId} is connected`, { from: tunnel.remoteAddress });
  try {
    await Promise.all([scheduler.run(tunnel, session.epoch, signal), segmentPuller?.run(tunnel, session.epoch, signal)]);
  } finally {
    registry.detach(session, tunnel);
  }
  // Pulling also ends when the colony stops; without this the agent's side would stay open.
  if (options.signal.aborted) await tunnel.close(stopping);
  const { reason } = await owned.closed;
  log.info(`Agent ${tunnel.agentId} is disconnected: ${reason}`);
}

/** Whether the agent behind a tunnel still answers within a few seconds. */
export async function answersHello(tunnel: Tunnel): Promise<boolean> {
  try {
    await createClient(AgentService, tunnel.transport).hello({}, { timeoutMs: 3_000 });
    return true;
  } catch {
    // Any failure means the same here: the agent is gone.
    return false;
  }
}
