/**
 * Removes secrets from everything that Coral stores: command lines, environments, log text, statements, requests, attributes. Decides by
 * name and by shape. Config can add rules, but not disable built-in ones. @module
 */

export { mask } from "./mask.ts";
export { bounded, redactCommand } from "./redact-command.ts";
export { isSecretText, redactEnvironment, redactVariable } from "./redact-environment.ts";
export { noExtraRules, type RedactionRules, redactCommandLine, redactText } from "./redact-line.ts";
export { redactLogText } from "./redact-log.ts";
export { escapeControls, redactBody, redactHeaders, redactTarget } from "./redact-request.ts";
export { beginsLikeSecret, isSecretAttribute, mayHoldSecret, type Secrecy, secrecyOfName } from "./secret-attributes.ts";
export { isSecretSegment } from "./secret-segments.ts";
export { redactShapes } from "./secret-shapes.ts";
export { type SqlTemplate, sqlTemplate } from "./sql-template.ts";
export { isDigit } from "./sql-words.ts";
