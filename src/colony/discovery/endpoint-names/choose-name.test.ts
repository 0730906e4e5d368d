import { describe, expect, it } from "vitest";
import type { RangeLabel } from "../../../tools/index.ts";
import { chooseName, needsProof } from "./choose-name.ts";

const s3: RangeLabel = { provider: "AWS", product: "S3", region: "eu-west-1", kind: "service" };
const ec2: RangeLabel = { provider: "AWS", product: "EC2", region: "eu-west-1", kind: "compute" };
const amazon: RangeLabel = { provider: "AWS", kind: "provider" };
const machine = "ec2-3-4-5-6.eu-west-1.compute.amazonaws.com";

describe("chooseName()", () => {
  it("prefers a range of one service to any host name", () => {
    const name = {
      name: "AWS S3 (eu-west-1)",
      method: "provider_range",
      confidence: 0.9,
      provider: "AWS",
      product: "S3",
      region: "eu-west-1",
    };
    expect(chooseName({ range: s3 })).toEqual(name);
    expect(chooseName({ range: s3, hostName: "files.example.com", isProven: true })).toEqual(name);
  });

  it("uses a product's host name if it is proven or the address is in the provider's range", () => {
    const name = {
      name: "s3-eu-west-1.amazonaws.com",
      method: "saas",
      confidence: 0.9,
      provider: "AWS",
      product: "S3",
      region: "eu-west-1",
    };
    expect(chooseName({ hostName: name.name, isProven: true })).toEqual(name);
    expect(chooseName({ hostName: name.name, range: amazon })).toEqual(name);
    expect(chooseName({ hostName: "4.3.2.34.bc.googleusercontent.com", range: { provider: "Google", kind: "provider" } })?.product).toBe(
      "Compute Engine",
    );
  });

  it("ignores an unproven product name", () => {
    expect(chooseName({ hostName: "s3.amazonaws.com" })).toBeUndefined();
    expect(chooseName({ hostName: "api.stripe.com", range: ec2 })?.name).toBe("AWS EC2 (eu-west-1)");
  });

  it("prefers other host names to ranges of machines, and adds the range's provider", () => {
    expect(chooseName({ hostName: "lb.example.com", range: ec2 })).toEqual({
      name: "lb.example.com",
      method: "reverse_dns",
      confidence: 0.6,
      provider: "AWS",
      region: "eu-west-1",
    });
    expect(chooseName({ hostName: machine, range: ec2 })).toMatchObject({ name: machine, method: "saas", confidence: 0.8, product: "EC2" });
  });

  it("falls back to the range, then to no name", () => {
    expect(chooseName({ range: ec2 })).toMatchObject({ name: "AWS EC2 (eu-west-1)", confidence: 0.8 });
    expect(chooseName({ range: amazon })).toEqual({ name: "AWS", method: "provider_range", confidence: 0.7, provider: "AWS" });
    expect(chooseName({})).toBeUndefined();
  });
});

describe("needsProof()", () => {
  it("is required only for product names outside their provider's ranges", () => {
    expect(needsProof("s3.amazonaws.com", undefined)).toBe(true);
    expect(needsProof("s3.amazonaws.com", ec2)).toBe(false);
    expect(needsProof("api.stripe.com", ec2)).toBe(true);
    expect(needsProof("lb.example.com", undefined)).toBe(false);
  });
});
