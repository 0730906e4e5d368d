/** Decides whether a command may run. Every program is checked separately, and all must be allowed. The default is deny. */

import { posix } from "node:path";
import { CoralError } from "../../base/errors.ts";
import { matcherOf } from "../../base/name-pattern.ts";
import type { ExecRule, ExecSettings, RuleAction } from "./exec-settings.ts";
import { isLauncher } from "./launchers.ts";
import type { Stage } from "./parse-command.ts";
import { isLoopbackHost } from "./profiles/contacted-hosts.ts";
import { checkDiagnostic, findDiagnostic } from "./profiles/diagnostic-programs.ts";
import { type Program, resolveProgram, searchPath } from "./resolve-program.ts";
import { nameOfPath, type RootFiles } from "./root-files.ts";

/** What the policy decides about. */
export interface PolicyRequest {
  stages: readonly Stage[];
  kind: "exec" | "shell" | "run";
  /** As in audit entries. */
  caller: string;
  /** All names of the target; a rule needs to match only one. */
  targets: readonly string[];
  /** Further names that only rules with `deny` or `hold` match. Default: none. */
  neighbours?: readonly string[];
  /** The target is a container of unknown name: every `deny` or `hold` rule about containers applies. Default false. */
  isUnnamed?: boolean;
  environment: string;
  /** The caller is a model or a program, not a person at the CLI. Default false. */
  isModel?: boolean;
  /** Only the read-only profile may allow; `deny` and `hold` rules still apply. */
  isReadOnly: boolean;
  /** Of the target. */
  files: RootFiles;
  /** Empty if none was requested. */
  workingDirectory: string;
}

/** One program that may run, and how. */
export interface AllowedStage {
  stage: Stage;
  program: Program;
  /** What is executed, in the target. */
  file: string;
  /** argv, including arguments that the profile adds; the first is the program's name. */
  argv: readonly [string, ...string[]];
  /** Allowed by the read-only profile: runs with the profile's environment and capabilities. */
  isDiagnostic: boolean;
  /** Allowed by a rule that restricts arguments or sets a user; variables and directories must not bypass that. */
  isByRule: boolean;
  capabilities: readonly string[];
  groups: readonly string[];
  stopAfterMs: number | undefined;
  /** Of the read-only profile: it would keep large input in temporary files. */
  spills: boolean;
}

/** Of a whole command: the strictest decision about any of its programs. */
export interface Decision {
  action: RuleAction;
  /** The rule that decided: its name, or `profile diagnostics`. */
  rule: string;
  /** Why it is denied, ready to print; empty otherwise. */
  why: string;
  /** The rule's user; undefined: the user from the settings. */
  runAs: string | undefined;
  /** Empty when denied. */
  stages: readonly AllowedStage[];
}

/** Throws only if a program cannot be found; a denial is a decision, not an error. */
export function decide(settings: ExecSettings, request: PolicyRequest): Decision {
  if (settings.profile === "off") return denied("profile off", "commands are disabled on this host (exec.profile: off)");
  const decisions = request.stages.map((stage) => decideStage(settings, request, stage));
  const refused = decisions.find(({ action }) => action === "deny");
  if (refused) return refused;
  const users = new Set(decisions.map(({ runAs }) => runAs ?? ""));
  if (users.size > 1)
    return denied(
      "run_as",
      `its programs run as different users (${[...users].map((user) => user || "default").join(", ")}); run them separately`,
    );
  const held = decisions.find(({ action }) => action === "require_approval");
  const decisive = held ?? decisions[0];
  if (!decisive) return denied("empty", "the command has no program");
  return {
    ...decisive,
    rule: [...new Set(decisions.map(({ rule }) => rule))].join(", "),
    stages: decisions.flatMap(({ stages }) => stages),
  };
}

/** The first matching rule applies; without one, the profile decides. */
function decideStage(settings: ExecSettings, request: PolicyRequest, stage: Stage): Decision {
  const isStrict = request.isReadOnly || settings.profile === "diagnostics";
  const { files, workingDirectory } = request;
  const program = resolveProgram(stage.argv[0], { files, ...(workingDirectory === "" ? {} : { workingDirectory }) });
  const rule = settings.rules.find(
    (candidate) => (candidate.action !== "allow" || !request.isReadOnly) && isMatch(candidate, request, stage, program),
  );
  if (rule?.action === "deny") {
    const doubt = isNamed(rule, request) ? "" : "; the name of its container is currently unknown, so the rule may apply";
    return denied(rule.name, `the rule "${rule.name}" denies ${program.name}${doubt}`);
  }
  const bound = rule && boundProblem(rule, workingDirectory);
  if (bound !== undefined) return denied(rule?.name ?? "", `${program.name}: ${bound}`);
  if (rule?.action === "allow") return allow(stage, program, rule);
  if (!isStrict) return rule ? allow(stage, program, rule) : { ...allow(stage, program, undefined), rule: "profile full" };
  // `hold` alone allows nothing: the profile still applies, unless the rule names a program.
  if (rule && rule.program.length > 0 && !request.isReadOnly) return allow(stage, program, rule);
  const decision = byDiagnostics(settings, request, stage, program);
  return rule && decision.action === "allow" ? { ...decision, action: "require_approval", rule: rule.name, runAs: rule.runAs } : decision;
}

/** A program may read settings from its working directory, so a command restricted by a rule cannot choose it. */
function boundProblem(rule: ExecRule, workingDirectory: string): string | undefined {
  const isBound = rule.args.length > 0 || rule.runAs !== undefined;
  return isBound && workingDirectory !== "" && workingDirectory !== "/"
    ? `the rule "${rule.name}" restricts its arguments or user, so its working directory must be /`
    : undefined;
}

function allow(stage: Stage, program: Program, rule: ExecRule | undefined): Decision {
  const allowed: AllowedStage = {
    stage,
    program,
    // A multi-call program is called by the link's name. Other links were resolved, so that they cannot be swapped before the start.
    file: program.isMultiCall ? program.path : program.realPath,
    argv: stage.argv,
    isDiagnostic: false,
    isByRule: rule !== undefined,
    capabilities: [],
    groups: [],
    stopAfterMs: undefined,
    spills: false,
  };
  return { action: rule?.action ?? "allow", rule: rule?.name ?? "", why: "", runAs: rule?.runAs, stages: [allowed] };
}

/** The read-only profile: a known program, from a directory that only root can write, with harmless arguments. */
function byDiagnostics(settings: ExecSettings, request: PolicyRequest, stage: Stage, program: Program): Decision {
  const rule = "profile diagnostics";
  const no = (why: string): Decision => denied(rule, `${program.name}: ${why}`);
  if (request.kind !== "exec") {
    return no(`the read-only profile has no ${request.kind}; set exec.profile: full, or allow the program by a rule in exec.rules`);
  }
  const entry = findDiagnostic(program.name);
  if (entry === undefined) return no("it is not in the diagnostics profile; a rule in exec.rules can allow it");
  if (!isInSearchPath(program.path)) return no(`${program.path} is not in ${searchPath.join(", ")}`);
  if (!program.isTrusted) return no(`${program.realPath}, or a directory above it, can be changed by other users than root`);
  if (!program.isNative) return no(`${program.realPath} is a script, not a binary`);
  if (!program.isMultiCall && program.realName !== program.name && isLauncher(program.realName))
    return no(`it is a link to ${program.realPath}`);
  if (request.workingDirectory !== "" && request.workingDirectory !== "/")
    return no("the read-only profile allows the working directory / only");
  const args = stage.argv.slice(1);
  const problem = checkDiagnostic(program.name, args, request.files);
  if (problem !== undefined) return no(problem);
  const host = request.isModel === true ? entry.hosts?.(args).find((name) => !isReachableByModels(name, settings)) : undefined;
  if (host !== undefined)
    return no(`models may not contact or resolve "${host}"; add it to exec.model_hosts in the agent's config to allow it`);
  const allowed: AllowedStage = {
    stage,
    program,
    file: program.isMultiCall ? program.path : program.realPath,
    argv: [program.name, ...(entry.prepend ?? []), ...(entry.rewrite?.(args) ?? args)],
    isDiagnostic: true,
    isByRule: false,
    capabilities: entry.capabilities ?? [],
    groups: entry.groups ?? [],
    stopAfterMs: entry.stopAfterMs,
    spills: entry.spills === true,
  };
  return { action: "allow", rule, why: "", runAs: undefined, stages: [allowed] };
}

function isReachableByModels(host: string, { modelHosts }: ExecSettings): boolean {
  return isLoopbackHost(host) || (modelHosts.length > 0 && matcherOf(modelHosts)(host.toLowerCase()));
}

function denied(rule: string, why: string): Decision {
  return { action: "deny", rule, why, runAs: undefined, stages: [] };
}

function isInSearchPath(path: string): boolean {
  return searchPath.some((directory) => path === `${directory}/${nameOfPath(path)}`);
}

function isMatch(rule: ExecRule, request: PolicyRequest, stage: Stage, program: Program): boolean {
  return (
    fits(rule.kind, request.kind) &&
    fits(rule.user, request.caller) &&
    isTarget(rule, request) &&
    fits(rule.environment, request.environment) &&
    (rule.action === "allow" ? allowsProgram(rule, program) : touchesProgram(rule, program)) &&
    fitsArguments(rule, stage.argv.slice(1))
  );
}

/** An uncertain match denies but does not allow. */
function isTarget(rule: ExecRule, request: PolicyRequest): boolean {
  if (isNamed(rule, request)) return true;
  return rule.action !== "allow" && request.isUnnamed === true && rule.target.some((name) => !/^(?:host|service )/.test(name));
}

function isNamed({ action, target: patterns }: ExecRule, { targets, neighbours = [] }: PolicyRequest): boolean {
  return [...targets, ...(action === "allow" ? [] : neighbours)].some((target) => fits(patterns, target));
}

function fits(patterns: readonly string[], value: string): boolean {
  return patterns.length === 0 || matcherOf(patterns)(value);
}

/** A name allows a program in directories that only root can write; a path allows that file. */
function allowsProgram({ program: patterns }: ExecRule, program: Program): boolean {
  if (patterns.length === 0) return true;
  const paths = matcherOf(patterns.filter((pattern) => pattern.includes("/") || pattern === "*"));
  if (paths(program.realPath)) return true;
  // A link counts by its own path only if that path contains no detour and only root could have created it.
  const isPlainLink = program.isTrusted && posix.normalize(program.path) === program.path && !isLauncher(program.realName);
  if (isPlainLink && paths(program.path)) return true;
  const names = matcherOf(patterns.filter((pattern) => !pattern.includes("/")));
  if (!program.isTrusted || !isInSearchPath(program.path)) return false;
  // The name of a link to a multi-call program or launcher does not allow it, unless the rule has that very name.
  return (
    names(program.name) && (program.isMultiCall || !isLauncher(program.realName) || isLauncher(program.name) || names(program.realName))
  );
}

/** `deny` and `hold` match every name of the program. */
function touchesProgram({ program: patterns }: ExecRule, program: Program): boolean {
  if (patterns.length === 0) return true;
  const matches = matcherOf(patterns);
  return [program.requested, program.name, program.path, program.realPath, program.realName].some(matches);
}

function fitsArguments({ action, args: patterns }: ExecRule, args: readonly string[]): boolean {
  if (patterns.length === 0) return true;
  const matches = matcherOf(patterns);
  return action === "allow" ? args.every(matches) : args.some(matches);
}

/** Warnings about rules that allow more than intended, ready to print. */
export function ruleWarnings(rules: readonly ExecRule[]): string[] {
  return rules.flatMap((rule) => {
    if (rule.action === "deny" || rule.args.length > 0) return [];
    const launchers = rule.program.map(nameOfPath).filter(isLauncher);
    return launchers.length === 0
      ? []
      : [`rule "${rule.name}" of exec.rules allows ${launchers.join(", ")} with any arguments, and thus any program; add args to the rule`];
  });
}

/** The error for a denied command. */
export function refusal({ rule, why }: Pick<Decision, "rule" | "why">): CoralError {
  return new CoralError({ code: "not-permitted", message: `Cannot run this command: ${why}`, details: { rule } });
}
