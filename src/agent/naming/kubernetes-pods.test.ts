import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { createKubernetesPods, type FetchClusterJson, labelsByContainer } from "./kubernetes-pods.ts";

const id = "3f2a".repeat(16);
const answer = {
  items: [
    {
      metadata: { labels: { app: "shop", n: 1 } },
      status: { containerStatuses: [{ containerID: `containerd://${id}` }, { containerID: "" }] },
    },
    null,
    {},
  ],
};

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "coral-pods-"));
  await writeFile(join(directory, "token"), "secret-token\n");
  await writeFile(join(directory, "ca.crt"), "CA");
});
afterEach(() => rm(directory, { recursive: true }));

const env = { KUBERNETES_SERVICE_HOST: "10.0.0.1", KUBERNETES_SERVICE_PORT: "6443", NODE_NAME: "node 1" };
const podsOf = (fetchJson: FetchClusterJson, more: Partial<Parameters<typeof createKubernetesPods>[0]> = {}) =>
  createKubernetesPods({ fetchJson, env, directory, hostname: "vm", log: silentLogger, ...more });
const live = new AbortController().signal;

describe("createKubernetesPods()", () => {
  it("requests the pods of its own node, with its token and the cluster's CA", async () => {
    const requests: Parameters<FetchClusterJson>[0][] = [];
    const pods = podsOf(async (request) => {
      requests.push(request);
      return answer;
    });
    await pods.refresh(live);
    expect(requests).toMatchObject([
      { url: "https://10.0.0.1:6443/api/v1/pods?fieldSelector=spec.nodeName%3Dnode%201&limit=1000", token: "secret-token", caPem: "CA" },
    ]);
    expect([pods.of(id), pods.of("other"), pods.problem]).toEqual([{ app: "shop" }, null, null]);
  });

  it("sends no request outside a cluster", async () => {
    const pods = podsOf(() => Promise.reject(new Error("not to be called")), { env: {} });
    await pods.refresh(live);
    expect(pods.problem).toBeNull();
  });

  it("keeps the labels when the API fails, and reports why", async () => {
    let fails = false;
    const pods = podsOf(async () => {
      if (fails) throw new Error("403 Forbidden");
      return answer;
    });
    await pods.refresh(live);
    fails = true;
    await pods.refresh(live);
    expect(pods.of(id)).toEqual({ app: "shop" });
    expect(pods.problem).toContain("403 Forbidden");
    expect(pods.problem).not.toContain("secret-token");
  });

  it("reports a missing service account", async () => {
    await rm(join(directory, "token"));
    const pods = podsOf(async () => answer);
    await pods.refresh(live);
    expect(pods.problem).toContain("ENOENT");
  });

  it("ends when aborted", async () => {
    const pods = podsOf(({ signal }) => Promise.reject(signal.reason as Error));
    await expect(pods.refresh(AbortSignal.abort(new Error("enough")))).rejects.toThrow("enough");
  });
});

describe("labelsByContainer()", () => {
  it.each([null, 7, "x", [], {}, { items: 5 }, { items: [{ status: { containerStatuses: [{ containerID: "docker://short" }] } }] }])(
    "finds no labels in %j",
    (value) => {
      expect(labelsByContainer(value).size).toBe(0);
    },
  );
});
