/** The `incidents` section of a colony's config: when incidents close, and who is notified. */

import * as z from "zod";
import { duration, section, text } from "../schema/schema-parts.ts";

export const colonyIncidentsSection = section({
  enabled: z
    .boolean({ error: "write true or false" })
    .meta({ kind: "true | false", description: "Watch entry services and open incidents" })
    .prefault(true),
  close_after: duration("How long all indicators must be within their limits before an incident is closed", {
    min: "30s",
    max: "1h",
  }).prefault("2m"),
  webhook: section({
    url: text("URL that gets a POST when an incident is opened, updated or closed; redirects are not followed", {
      expression: /^https?:\/\/[^\s@]+$/,
      message: "write a URL without user name and password, such as https://hooks.example.com/coral",
    }).optional(),
    secret: text("Secret of the HMAC-SHA256 signature in the header x-coral-signature; absent: no signature", {
      expression: /^.{8,}$/,
      message: "write at least 8 characters",
    }).optional(),
  }),
});

export interface ColonyIncidentsConfig {
  isEnabled: boolean;
  closeAfterMs: number;
  /** Null: no notifications. */
  webhook: WebhookConfig | null;
}

export interface WebhookConfig {
  url: string;
  /** Null: requests are not signed. */
  secret: string | null;
}

export function toColonyIncidents(file: z.output<typeof colonyIncidentsSection>): ColonyIncidentsConfig {
  const { url, secret } = file.webhook;
  return {
    isEnabled: file.enabled,
    closeAfterMs: file.close_after,
    webhook: url === undefined ? null : { url, secret: secret ?? null },
  };
}
