/** Converts runtime contexts between model and wire, and bounds what an agent sends. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { RuntimeFacts } from "../../model/runtime-facts.ts";
import type { RuntimeContext, RuntimeContextSchema } from "../../proto/coral/runtime/v1/runtime_pb.ts";

/** Characters of names and versions. */
const maxWord = 64;
/** Characters of reasons, fixes and paths. */
const maxText = 1_024;
/** Limits of lists; further entries are dropped. An agent is authenticated, but may be faulty. */
const maxCapabilities = 32;
const maxContainers = 256;
const maxEvidence = 32;

/** For RegisterRequest. */
export function runtimeToWire(facts: RuntimeFacts): MessageInitShape<typeof RuntimeContextSchema> {
  const { containerRuntime, detectedAt, ...rest } = facts;
  return { ...rest, ...(containerRuntime === null ? {} : { containerRuntime }), detectedAtMs: BigInt(Date.parse(detectedAt) || 0) };
}

/** Never throws: missing or oversized fields become empty or are cut. */
export function runtimeFromWire(context: RuntimeContext): RuntimeFacts {
  const { platform, containerRuntime, visibility } = context;
  return {
    platform: {
      os: cut(platform?.os, maxWord),
      arch: cut(platform?.arch, maxWord),
      osVersion: cut(platform?.osVersion, 128),
      kernel: cut(platform?.kernel, 128),
    },
    runtimeType: cut(context.runtimeType, maxWord),
    sidecarMode: cut(context.sidecarMode, maxWord),
    containerRuntime: containerRuntime
      ? {
          socketPath: cut(containerRuntime.socketPath, maxText),
          type: cut(containerRuntime.type, maxWord),
          version: cut(containerRuntime.version, maxWord),
        }
      : null,
    capabilities: context.capabilities.slice(0, maxCapabilities).map(({ name, available, reason, fix }) => ({
      name: cut(name, maxWord),
      available,
      reason: cut(reason, maxText),
      fix: cut(fix, maxText),
    })),
    visibility: {
      allPids: visibility?.allPids ?? false,
      allContainers: visibility?.allContainers ?? false,
      podScope: visibility?.podScope ?? false,
      containers: (visibility?.containers ?? []).slice(0, maxContainers).map((name) => cut(name, 256)),
      namespace: cut(visibility?.namespace, maxWord),
      moreContainers: (visibility?.moreContainers ?? 0) + Math.max(0, (visibility?.containers.length ?? 0) - maxContainers),
    },
    detectedAt: isoTime(Number(context.detectedAtMs)),
    version: cut(context.version, maxWord),
    evidence: context.evidence.slice(0, maxEvidence).map((text) => cut(text, maxText)),
    isOverridden: context.isOverridden,
  };
}

/** Limits the length only; printers escape control characters. */
function cut(text: string | undefined, max: number): string {
  return (text ?? "").slice(0, max);
}

/** A clock that is far off must not make the conversion fail. */
function isoTime(atMs: number): string {
  const time = new Date(atMs);
  return Number.isNaN(time.getTime()) ? new Date(0).toISOString() : time.toISOString();
}
