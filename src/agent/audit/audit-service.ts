/** The colony's RPCs on the agent's audit log. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { AuditLink, VerifyAuditRequest, VerifyAuditResponseSchema } from "../../proto/coral/agent/v1/audit_pb.ts";
import type { ChainLink } from "../../store/signals/index.ts";
import type { AuditLog } from "./audit-log.ts";

/** The part of an AuditLog that the colony can reach. */
export type RemoteAudit = Pick<AuditLog, "head" | "verify" | "linksOf" | "anchors" | "anchor">;

/** Heads of the colony's chain in one response; the colony checks each against its own entries. */
const maxColonyLinks = 200;

/** Verifies the local chain, and returns what the colony needs to compare the two copies. */
export async function verifyAudit(
  log: RemoteAudit,
  request: VerifyAuditRequest,
): Promise<MessageInitShape<typeof VerifyAuditResponseSchema>> {
  const wire = ({ entry, hash }: ChainLink, chainId = log.head.chainId) => ({ chainId, entry: BigInt(entry), hash });
  const report = request.walk ? await log.verify() : undefined;
  const links = await log.linksOf(request.entries.map(Number));
  const anchors = request.walk ? await log.anchors(maxColonyLinks) : [];
  return {
    head: wire(log.head),
    links: links.map((link) => wire(link)),
    colonyLinks: anchors.map((head) => ({ ...wire(head, head.chainId), colonyId: head.colonyId })),
    ...(report
      ? {
          firstEntry: BigInt(report.firstEntry),
          entries: BigInt(report.entries),
          problems: report.problems.map(({ kind, entry, message }) => ({ kind, entry: BigInt(entry), message })),
          moreProblems: BigInt(report.moreProblems),
        }
      : {}),
  };
}

/** A head that cannot be recorded is recorded with a later pull. */
export async function recordAnchor(log: RemoteAudit, link: AuditLink | undefined, colonyId: string): Promise<void> {
  if (!link || !/^[0-9a-f]{64}$/.test(link.hash) || link.chainId.length > 64) return;
  await log.anchor({ colonyId, chainId: link.chainId, entry: Number(link.entry), hash: link.hash });
}
