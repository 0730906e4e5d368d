/** Removes secrets from environments before anything is stored. For command lines see redact-line.ts. */

import { printable } from "../base/escape-text.ts";
import { mask } from "./mask.ts";
import { noExtraRules, type RedactionRules, redactIdentifier, redactText, withoutControls } from "./redact-line.ts";
import { isHarmlessValue, isIdentifierName, isSecretName, wordSet } from "./secret-names.ts";
import { looksRandom } from "./secret-shapes.ts";

const maxValueLength = 256;

/** Collected variables: those that identify service, version and location. Everything else is dropped. */
const keptVariables = wordSet(`
  OTEL_SERVICE_NAME OTEL_RESOURCE_ATTRIBUTES OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_PROTOCOL OTEL_TRACES_SAMPLER
  SERVICE_NAME SERVICE_VERSION SERVICE_ID SERVICE_PORT SERVICE_ENV DD_SERVICE DD_ENV DD_VERSION ELASTIC_APM_SERVICE_NAME
  APP APP_NAME APP_ENV APP_VERSION APP_LABEL APP_ID APP_ROLE SPRING_APPLICATION_NAME SPRING_PROFILES_ACTIVE
  KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT K8S_NAMESPACE K8S_POD_NAME K8S_NODE_NAME K8S_CLUSTER_NAME K8S_CONTAINER_NAME K8S_APP
  POD_NAME POD_NAMESPACE POD_IP POD_UID POD_APP POD_LABEL_APP NODE_NAME CONTAINER_NAME NAMESPACE
  NODE_ENV RAILS_ENV RACK_ENV FLASK_ENV FLASK_APP DJANGO_SETTINGS_MODULE ASPNETCORE_ENVIRONMENT DOTNET_ENVIRONMENT GO_ENV MIX_ENV
  ENV ENVIRONMENT STAGE HOSTNAME PORT HTTP_PORT GRPC_PORT LANG LC_ALL TZ AWS_REGION AWS_DEFAULT_REGION REGION ZONE
  GIT_COMMIT GIT_SHA GIT_BRANCH COMMIT_SHA VERSION RELEASE INVOCATION_ID LISTEN_FDS
`);
const maxVariables = 64;

/** Names of hosts, pods and nodes have a known character set. */
const hostVariable = /(?:^|_)(?:HOST|HOSTNAME|NODE_NAME|POD_NAME|NAMESPACE|POD_IP)$/;
const hostCharacters = /^[\w.:[\]%-]*$/;
const nameVariable = /^(?:name|APP|K_SERVICE|DD_SERVICE)$|(?:^|_)(?:SERVICE|APP|APPLICATION|CONTAINER)_NAME$|_LABEL$/;

/** Contains characters of passwords, or looks random: not the name of a service. */
function isOddName(value: string): boolean {
  if (value.length < 8 || /\s/.test(value) || !/\d/.test(value) || !/[A-Za-z]/.test(value)) return false;
  if (/[!#$^&*<>?~|\\%"'`;]/.test(value)) return !/^\$\{?\w+\}?$/.test(value);
  return /^[A-Za-z0-9]{12,}$/.test(value) && value.replace(/\D/g, "").length >= 3 && looksRandom(value, 12);
}

/** A variable's value without secrets and control characters. */
export function redactVariable(name: string, text: string, rules: RedactionRules = noExtraRules, maxLength = maxValueLength): string {
  const value = withoutControls(text, maxLength * 4);
  const isSecret =
    (isSecretName(name, rules) && !isHarmlessValue(name, value)) ||
    (hostVariable.test(name) && !hostCharacters.test(value)) ||
    (nameVariable.test(name) && isOddName(value));
  if (isSecret) return mask;
  return printable(isIdentifierName(name) ? redactIdentifier(value, rules) : redactText(value, rules), maxLength);
}

/** True for a text that must not become a name: it is or contains a secret, or one was masked in it. */
export function isSecretText(text: string): boolean {
  return text.includes(mask) || redactText(text) !== text;
}

/** The collected variables, redacted, in the order of the process. `entries` are `NAME=value`. */
export function redactEnvironment(entries: Iterable<string>, rules: RedactionRules = noExtraRules): Record<string, string> {
  const kept: Record<string, string> = {};
  let count = 0;
  for (const entry of entries) {
    const end = entry.indexOf("=");
    if (end <= 0 || end > 64 || !keptVariables.has(entry.slice(0, end))) continue;
    const name = entry.slice(0, end);
    kept[name] = redactVariable(name, entry.slice(end + 1), rules);
    if (++count >= maxVariables) break;
  }
  return kept;
}
