import { createClient } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { silentLogger } from "../base/log.ts";
import { AgentService } from "../proto/coral/agent/v1/agent_pb.ts";
import { agentRoutes, issueIdentity, startTestColony } from "./colony.fixture.ts";
import { dialTunnel } from "./dial-tunnel.ts";

const never = new AbortController().signal;

test("dialTunnel() lets the colony call AgentService.Pull through real TLS", async () => {
  await using colony = await startTestColony();
  const identity = await issueIdentity(colony.authority, "web-1");
  await using tunnel = await dialTunnel({
    endpoint: colony.endpoint,
    identity,
    colonyId: identity.colonyId,
    routes: agentRoutes("web-1"),
    signal: never,
    log: silentLogger,
  });
  const accepted = await colony.nextTunnel();
  expect(accepted.agentId).toBe("web-1");
  const client = createClient(AgentService, accepted.transport);
  expect((await client.hello({})).agentId).toBe("web-1");
  const reply = await client.pull({ cursors: [{ signal: "host", afterSeq: 41n }], maxBytes: 1_000n });
  expect(reply.slices[0]?.nextSeq).toBe(42n);
  await tunnel.close("test ends");
  expect((await accepted.closed).reason).toBe("closed by the agent: test ends");
});
