/** Small files in the shapes that the providers publish. */
export const samples = {
  aws: JSON.stringify({
    syncToken: "1790910245",
    createDate: "2026-10-02-03-04-05",
    prefixes: [
      { ip_prefix: "3.5.140.0/22", region: "ap-northeast-2", service: "AMAZON", network_border_group: "ap-northeast-2" },
      { ip_prefix: "3.5.140.0/22", region: "ap-northeast-2", service: "S3", network_border_group: "ap-northeast-2" },
      { ip_prefix: "3.5.140.0/22", region: "ap-northeast-2", service: "EC2", network_border_group: "ap-northeast-2" },
      { ip_prefix: "15.220.0.0/20", region: "us-west-2", service: "EC2", network_border_group: "us-west-2-lax-1" },
      { ip_prefix: "54.230.0.0/16", region: "GLOBAL", service: "CLOUDFRONT", network_border_group: "GLOBAL" },
    ],
    ipv6_prefixes: [
      { ipv6_prefix: "2a05:d07a:c000::/40", region: "eu-south-1", service: "S3", network_border_group: "eu-south-1" },
      { ipv6_prefix: "2600:1f14:fff0:f800::/56", region: "us-west-2", service: "ROUTE53_HEALTHCHECKS", network_border_group: "us-west-2" },
    ],
  }),
  googleCloud: JSON.stringify({
    syncToken: "1780318205432",
    creationTime: "2026-06-01T13:03:25.432",
    prefixes: [
      { ipv4Prefix: "34.80.0.0/15", service: "Google Cloud", scope: "us-central1" },
      { ipv4Prefix: "34.160.0.0/16", service: "Google Cloud", scope: "global" },
      { ipv6Prefix: "2600:1900:4000::/44", service: "Google Cloud", scope: "europe-west1" },
    ],
  }),
  google: JSON.stringify({
    syncToken: "1780318205432",
    creationTime: "2026-06-01T13:03:25.432",
    prefixes: [{ ipv4Prefix: "8.8.8.0/24" }, { ipv6Prefix: "2001:4860::/32" }],
  }),
  azure: JSON.stringify({
    changeNumber: 401,
    cloud: "Public",
    values: [
      azureTag("AzureCloud", "", "Azure", ["13.65.0.0/16"]),
      azureTag("AzureCloud.westeurope", "westeurope", "Azure", ["13.65.0.0/16"]),
      azureTag("Storage", "", "AzureStorage", ["13.65.107.32/28"]),
      azureTag("Storage.AustraliaCentral", "australiacentral", "AzureStorage", ["52.239.216.0/23"]),
      azureTag("AzureFrontDoor.Frontend", "", "AzureFrontDoor", ["13.107.246.0/24"]),
      azureTag("AppServiceManagement", "", "AzureAppServiceManagement", ["2603:1030:1:2::440/122"]),
    ],
  }),
  cloudflare: JSON.stringify({
    result: { ipv4_cidrs: ["173.245.48.0/20"], ipv6_cidrs: ["2400:cb00::/32"], etag: "38f79d050aa027e3be3865e495dcc9bc" },
    success: true,
    errors: [],
    messages: [],
  }),
  fastly: JSON.stringify({ addresses: ["23.235.32.0/20"], ipv6_addresses: ["2a04:4e40::/32"] }),
};

function azureTag(name: string, region: string, systemService: string, addressPrefixes: string[]): unknown {
  return {
    name,
    id: name,
    properties: {
      changeNumber: 7,
      region,
      regionId: 0,
      platform: "Azure",
      systemService,
      addressPrefixes,
      networkFeatures: ["API", "NSG"],
    },
  };
}
