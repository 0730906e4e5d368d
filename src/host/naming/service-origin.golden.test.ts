/** Ids are stored: a changed id turns an existing service into a new one in every installation. */

import { expect, it } from "vitest";
import { originFacts } from "./service-origin.fixture.ts";
import { originAtPort, originOfNamedPort, originOfPort, originOfProcess, originOfRun } from "./service-origin.ts";

it.each([
  ["unit:api", originFacts("/srv/api/bin/api", { unit: "api" })],
  ["program:worker#510d376720dc", originFacts("/usr/bin/python3.11 worker.py", { workingDirectory: "/srv/billing" })],
  ["program:api#b84eac48b0bc", originFacts("/opt/api/releases/20240101/api --config /etc/api.yaml", { workingDirectory: "/opt/api" })],
  ["program:shop#2d8f8db1f119", originFacts("/usr/bin/python3 /usr/bin/gunicorn shop.wsgi:app", { workingDirectory: "/srv/shop" })],
  ["program:nginx#8aae3dc2adbc", originFacts("/usr/sbin/nginx -c /etc/nginx/a.conf")],
])("keeps the id %s", (id, facts) => {
  expect(originOfProcess(facts).id).toBe(id);
});

it("keeps the ids of ports, programs of coral run, containers and pods", () => {
  const redis = originOfProcess(originFacts("/usr/bin/redis-server *:6379"));
  const container = {
    id: "x",
    runtime: "docker",
    name: "shop-api-1",
    service: "api",
    project: "shop",
    image: "acme/api",
    pod: null,
    labels: {},
  } as const;
  expect([
    originAtPort(redis, 6379).id,
    originOfPort("web-1", 8080).id,
    originOfRun("job", null).id,
    originOfNamedPort({ id: "unit:api", text: "", qualifiers: [] }, 81).id,
    originOfProcess(originFacts("/bin/api", { container })).id,
    originOfProcess(originFacts("/bin/api", { kubernetes: { app: null, workload: "api", namespace: "prod", container: null } })).id,
    originOfProcess(originFacts("/bin/api", { unit: "api", resource: "deployment.environment.name=staging" })).id,
  ]).toEqual([
    "program:redis#8a3f768142ed",
    "port:web-1/8080",
    "run:job",
    "unit:api:81",
    "container:shop/api#8d5229473727",
    "workload:prod/api",
    "unit:api@staging",
  ]);
});
