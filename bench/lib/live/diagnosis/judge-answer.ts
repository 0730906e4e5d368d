/** Compares an answer of `coral diagnose` with the truth of a trial. */

import type { DiagnosisResult } from "../../../../src/tools/schemas/diagnosis.ts";
import { type Role, roles } from "../live-names.ts";
import type { FaultTrial } from "./trial.ts";

/** What the programs of a world are called. */
export interface Named {
  readonly names: Readonly<Record<Role, string>>;
  readonly ports: Readonly<Record<Role, number>>;
}

export interface Judged {
  isServiceRight: boolean;
  isKindRight: boolean;
  isPointerRight: boolean;
  /** Somebody is named, and it is the wrong one. */
  isWrong: boolean;
  text: string;
}

export function judgeAnswer(world: Named, truth: Pick<FaultTrial, "services" | "kinds" | "pointers">, answer: DiagnosisResult): Judged {
  const [first] = answer.causes;
  const isServiceRight = first !== undefined && isOneOf(world, first.service, truth.services);
  const said = first ? [first.pointer, first.summary, ...first.evidence.map(({ statement }) => statement)].join("\n") : "";
  return {
    isServiceRight,
    isKindRight: isServiceRight && truth.kinds.includes(first.kind),
    isPointerRight: isServiceRight && truth.pointers.some((pointer) => said.includes(pointer)),
    isWrong: first !== undefined && !isServiceRight,
    text: causeText(world, answer),
  };
}

/** More traffic, where there is more, is the truth. */
export function isAccusation({ causes: [first] }: DiagnosisResult): boolean {
  return first !== undefined && first.kind !== "more-traffic";
}

export function causeText(world: Named, { verdict, causes: [first] }: DiagnosisResult): string {
  if (!first) return verdict;
  const [evidence] = first.evidence;
  return `${roleOf(world, first.service) ?? first.service} ${first.kind} ${first.pointer} (${first.confidence}): ${evidence?.statement ?? ""}`;
}

function roleOf({ names, ports }: Named, service: string): Role | undefined {
  const plain = service.replace(/[ :(].*$/, "");
  const own = roles.find((role) => names[role] === service || names[role] === plain);
  // A program without a name is known by its address.
  return own ?? roles.find((role) => service.endsWith(`:${ports[role]}`));
}

function isOneOf(world: Named, service: string, right: readonly (Role | "host")[]): boolean {
  const role = roleOf(world, service) ?? (/\(host\)$|^host /.test(service) ? "host" : undefined);
  return role !== undefined && right.includes(role);
}
