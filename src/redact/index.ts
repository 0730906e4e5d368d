/**
 * Takes secrets out of everything Coral keeps: command lines, environments, log text, statements. By name and by shape; rules can be
 * added, not switched off.
 * @module
 */

export { bounded, redactCommand } from "./redact-command.ts";
export { redactEnvironment } from "./redact-environment.ts";
export { noExtraRules, type RedactionRules, redactCommandLine, redactText } from "./redact-line.ts";
export { redactLogText } from "./redact-log.ts";
export { isHarmlessValue, isSecretName } from "./secret-names.ts";
export { looksRandom, mask, redactShapes } from "./secret-shapes.ts";
export { type SqlTemplate, sqlTemplate } from "./sql-template.ts";
export { isDigit } from "./sql-words.ts";
