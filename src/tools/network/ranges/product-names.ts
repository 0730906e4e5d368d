/** Product names for the codes in provider ranges. Maps rather than objects, because codes are untrusted and could be `constructor`. */

import type { RangeKind } from "./range-list.ts";

/** AWS codes whose title case would be wrong. */
const awsProducts: ReadonlyMap<string, string> = new Map([
  ["API_GATEWAY", "API Gateway"],
  ["AURORA_DSQL", "Aurora DSQL"],
  ["CLOUDFRONT", "CloudFront"],
  ["CLOUDFRONT_ORIGIN_FACING", "CloudFront"],
  ["CODEBUILD", "CodeBuild"],
  ["DYNAMODB", "DynamoDB"],
  ["EBS", "EBS"],
  ["EC2", "EC2"],
  ["EC2_INSTANCE_CONNECT", "EC2 Instance Connect"],
  ["GLOBALACCELERATOR", "Global Accelerator"],
  ["IVS_LOW_LATENCY", "IVS"],
  ["IVS_REALTIME", "IVS"],
  ["MEDIA_PACKAGE_V2", "MediaPackage"],
  ["ROUTE53", "Route 53"],
  ["ROUTE53_HEALTHCHECKS", "Route 53 Health Checks"],
  ["ROUTE53_HEALTHCHECKS_PUBLISHING", "Route 53 Health Checks"],
  ["ROUTE53_RESOLVER", "Route 53 Resolver"],
  ["S3", "S3"],
  ["WORKSPACES_GATEWAYS", "WorkSpaces"],
]);

/** Azure tags whose words would be wrong or unfamiliar. */
const azureProducts: ReadonlyMap<string, string> = new Map([
  ["AzureActiveDirectory", "Entra ID"],
  ["AzureAD", "Entra ID"],
  ["AzureCosmosDB", "Cosmos DB"],
  ["AzureIoTHub", "IoT Hub"],
  ["AzureOpenAI", "OpenAI"],
  ["EventHub", "Event Hubs"],
  ["PowerBI", "Power BI"],
  ["Sql", "SQL Database"],
]);

/** `AMAZON` covers all of AWS and names no product. */
export function awsProduct(service: string): { product?: string; kind: RangeKind } {
  if (service === "AMAZON") return { kind: "provider" };
  const product = awsProducts.get(service) ?? titleCase(service.replace(/^AMAZON_/, ""));
  return { product, kind: service === "EC2" ? "compute" : "service" };
}

/** `AzureCloud` covers all of Azure. Tags have the forms `Storage`, `Storage.WestEurope` and `AzureFrontDoor.Frontend`. */
export function azureProduct(tag: string): { product?: string; kind: RangeKind } {
  const name = tag.split(".")[0] ?? tag;
  if (name === "AzureCloud") return { kind: "provider" };
  const product = azureProducts.get(name) ?? words(name.replace(/^Azure(?=[A-Z])/, ""));
  return { product, kind: "service" };
}

function titleCase(code: string): string {
  return code
    .split("_")
    .filter((word) => word !== "")
    .map((word) => word.charAt(0) + word.slice(1).toLowerCase())
    .join(" ");
}

/** `AppServiceManagement` → `App Service Management`, `HDInsight` unchanged. */
function words(name: string): string {
  return name.replace(/([a-z0-9])([A-Z])/g, "$1 $2");
}
