import { describe, expect, it } from "vitest";
import { findSaasHost } from "./saas-hosts.ts";
import { saasSuffixes } from "./saas-suffixes.ts";

const shown = (hostName: string): string => {
  const found = findSaasHost(hostName);
  return found ? [found.provider, found.product ?? "-", found.region ?? "-", found.isMachine ? "machine" : "product"].join(" / ") : "none";
};

describe("findSaasHost()", () => {
  it.each([
    ["api.stripe.com", "Stripe / Stripe API / - / product"],
    ["stripe.com", "Stripe / Stripe API / - / product"],
    ["api.twilio.com", "Twilio / Twilio / - / product"],
    ["smtp.sendgrid.net", "Twilio / SendGrid / - / product"],
    ["lb-140-82-121-4-fra.github.com", "GitHub / GitHub / - / product"],
    ["hooks.slack.com", "Slack / Slack / - / product"],
    ["intake.logs.datadoghq.eu", "Datadog / Datadog / - / product"],
    ["acme.eu.auth0.com", "Okta / Auth0 / - / product"],
    ["bucket.storage.googleapis.com", "Google Cloud / Cloud Storage / - / product"],
    ["bigquery.googleapis.com", "Google Cloud / BigQuery / - / product"],
    ["drive.googleapis.com", "Google / Google APIs / - / product"],
    ["acme.blob.core.windows.net", "Azure / Blob Storage / - / product"],
    ["api.openai.com", "OpenAI / OpenAI API / - / product"],
    ["api.anthropic.com", "Anthropic / Anthropic API / - / product"],
    ["o1.ingest.sentry.io", "Sentry / Sentry / - / product"],
    ["events.pagerduty.com", "PagerDuty / PagerDuty / - / product"],
    ["acme.my.salesforce.com", "Salesforce / Salesforce / - / product"],
    ["acme.myshopify.com", "Shopify / Shopify / - / product"],
    ["x-dsn.algolia.net", "Algolia / Algolia / - / product"],
    ["cluster0-shard-00-00.ab1cd.mongodb.net", "MongoDB / MongoDB Atlas / - / product"],
    ["acme.eu-west-1.snowflakecomputing.com", "Snowflake / Snowflake / - / product"],
    ["prod.global.fastly.net", "Fastly / Fastly / - / machine"],
    ["a23-45-67-89.deploy.static.akamaitechnologies.com", "Akamai / Akamai / - / machine"],
    ["server-54-230-1-1.fra2.r.cloudfront.net", "AWS / CloudFront / - / product"],
    ["fra16s51-in-f14.1e100.net", "Google / Google / - / machine"],
    ["4.3.2.34.bc.googleusercontent.com", "Google Cloud / Compute Engine / - / machine"],
    ["s3.amazonaws.com", "AWS / S3 / - / product"],
    ["s3-1-w.amazonaws.com", "AWS / S3 / - / product"],
    ["s3-eu-west-1.amazonaws.com", "AWS / S3 / eu-west-1 / product"],
    ["s3-r-w.eu-central-1.amazonaws.com", "AWS / S3 / eu-central-1 / product"],
    ["logs.s3.eu-west-1.amazonaws.com", "AWS / S3 / eu-west-1 / product"],
    ["dynamodb.us-gov-west-1.amazonaws.com", "AWS / DynamoDB / us-gov-west-1 / product"],
    ["s3-files.execute-api.eu-west-1.amazonaws.com", "AWS / API Gateway / eu-west-1 / product"],
    ["123.dkr.ecr.eu-west-1.amazonaws.com", "AWS / ECR / eu-west-1 / product"],
    ["ec2-3-4-5-6.eu-west-1.compute.amazonaws.com", "AWS / EC2 / eu-west-1 / machine"],
    ["ec2-3-4-5-6.compute-1.amazonaws.com", "AWS / EC2 / us-east-1 / machine"],
    ["db.abc.eu-west-1.rds.amazonaws.com", "AWS / RDS / eu-west-1 / product"],
    ["sqs.cn-north-1.amazonaws.com.cn", "AWS / SQS / cn-north-1 / product"],
    ["constructor.__proto__.amazonaws.com", "AWS / - / - / machine"],
    ["whatever.amazonaws.com", "AWS / - / - / machine"],
  ])("knows %s", (hostName, expected) => {
    expect(shown(hostName)).toBe(expected);
  });

  it.each(["github.com.evil.example", "notgithub.com", "evil-amazonaws.com", "amazonaws.com.evil.example", "com", "", ".", "example.org"])(
    "finds no product for %j",
    (hostName) => {
      expect(shown(hostName)).toBe("none");
    },
  );

  it("has each suffix once, in lower case, without outer dots", () => {
    const all = Object.values(saasSuffixes).flatMap(({ products = {}, machines = {} }) =>
      [...Object.values(products), ...Object.values(machines)].flat(),
    );
    expect(new Set(all).size).toBe(all.length);
    expect(all.length).toBeGreaterThan(150);
    for (const suffix of all) expect(suffix).toMatch(/^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/);
  });
});
