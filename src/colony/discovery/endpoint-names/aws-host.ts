/** Host names of AWS services: `<service>.<region>.amazonaws.com`, in the many label orders and spellings of AWS. */

/** Label in the host name → product. A map, because labels are untrusted: an object has keys such as `constructor`. */
const awsServices: ReadonlyMap<string, string> = new Map([
  ["s3", "S3"],
  ["dynamodb", "DynamoDB"],
  ["sqs", "SQS"],
  ["queue", "SQS"],
  ["sns", "SNS"],
  ["email", "SES"],
  ["email-smtp", "SES"],
  ["kinesis", "Kinesis"],
  ["firehose", "Data Firehose"],
  ["lambda", "Lambda"],
  ["lambda-url", "Lambda URLs"],
  ["execute-api", "API Gateway"],
  ["ecr", "ECR"],
  ["sts", "STS"],
  ["iam", "IAM"],
  ["kms", "KMS"],
  ["secretsmanager", "Secrets Manager"],
  ["ssm", "Systems Manager"],
  ["ssmmessages", "Systems Manager"],
  ["ec2messages", "Systems Manager"],
  ["logs", "CloudWatch Logs"],
  ["monitoring", "CloudWatch"],
  ["xray", "X-Ray"],
  ["events", "EventBridge"],
  ["states", "Step Functions"],
  ["rds", "RDS"],
  ["cache", "ElastiCache"],
  ["es", "OpenSearch"],
  ["aoss", "OpenSearch Serverless"],
  ["redshift", "Redshift"],
  ["athena", "Athena"],
  ["glue", "Glue"],
  ["elasticmapreduce", "EMR"],
  ["kafka", "MSK"],
  ["mq", "Amazon MQ"],
  ["docdb", "DocumentDB"],
  ["neptune", "Neptune"],
  ["memory-db", "MemoryDB"],
  ["elb", "Load Balancing"],
  ["elasticloadbalancing", "Load Balancing"],
  ["autoscaling", "Auto Scaling"],
  ["ec2", "EC2 API"],
  ["ecs", "ECS"],
  ["eks", "EKS"],
  ["batch", "Batch"],
  ["cloudformation", "CloudFormation"],
  ["cloudtrail", "CloudTrail"],
  ["route53", "Route 53"],
  ["cognito-idp", "Cognito"],
  ["cognito-identity", "Cognito"],
  ["amazoncognito", "Cognito"],
  ["sagemaker", "SageMaker"],
  ["bedrock", "Bedrock"],
  ["bedrock-runtime", "Bedrock"],
  ["iot", "IoT Core"],
  ["elasticfilesystem", "EFS"],
  ["efs", "EFS"],
  ["fsx", "FSx"],
  ["backup", "Backup"],
  ["codecommit", "CodeCommit"],
  ["codeartifact", "CodeArtifact"],
  ["appsync", "AppSync"],
  ["appsync-api", "AppSync"],
  ["timestream", "Timestream"],
]);

const suffixes = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws", ".amazonaws.eu"];
const regionPattern = /^[a-z]{2}(?:-[a-z]{2,4})?-[a-z]+-\d$/;

export interface AwsHost {
  product?: string;
  region?: string;
  /** True for customers' machines. */
  isMachine: boolean;
}

/** Undefined for names outside AWS. `hostName` is lower case. */
export function parseAwsHost(hostName: string): AwsHost | undefined {
  const suffix = suffixes.find((end) => hostName.endsWith(end));
  if (suffix === undefined) return undefined;
  // From the right: labels left of the service are the customer's, and may be anything.
  const labels = hostName.slice(0, -suffix.length).split(".").reverse();
  const region = labels.map((label) => label.replace(/^s3-(?:website-)?/, "")).find((label) => regionPattern.test(label));
  for (const label of labels) {
    // `compute-1` is us-east-1, from when there was only one region.
    if (/^compute(?:-\d)?$/.test(label)) {
      const known = region ?? (label === "compute-1" ? "us-east-1" : undefined);
      return { product: "EC2", ...(known === undefined ? {} : { region: known }), isMachine: true };
    }
    const product = label.startsWith("s3-") ? "S3" : awsServices.get(label);
    if (product !== undefined) return { product, ...(region === undefined ? {} : { region }), isMachine: false };
  }
  return { ...(region === undefined ? {} : { region }), isMachine: true };
}
