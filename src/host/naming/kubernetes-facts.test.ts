import { describe, expect, it } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, type TreeEntry } from "../host-tree.fixture.ts";
import { createContainerReader } from "./container-facts.ts";
import { noPodLabels, type PodLabels, type PodProcess, parseLabels, readKubernetesFacts, workloadOf } from "./kubernetes-facts.ts";

const container = {
  id: "c1",
  runtime: "containerd" as const,
  name: null,
  service: null,
  project: null,
  image: null,
  pod: { name: "shop-0", namespace: null, container: null },
  labels: {},
};
const factsOf = (more: Partial<PodProcess>, files: Record<string, TreeEntry> = {}, api: PodLabels = noPodLabels) => {
  using tree = createHostTree(files);
  const root = createHostRoot(tree.root);
  return readKubernetesFacts(
    root,
    { pid: 42, cgroup: null, environment: new Map(), container: null, label: "app", containers: createContainerReader(root), ...more },
    api,
  );
};
const inPod = new Map([["KUBERNETES_SERVICE_HOST", "10.0.0.1"]]);

describe("readKubernetesFacts()", () => {
  it("is null outside of pods", () => {
    expect(factsOf({})).toBeNull();
    expect(factsOf({ environment: new Map([["APP_LABEL", "shop"]]) })).toBeNull();
  });

  it("takes the label from the downward API, variables, the runtime, the cluster, in this order", () => {
    const files = { "proc/42/root/etc/podinfo/labels": 'app="file"\npod-template-hash="x"\n' };
    const environment = new Map([...inPod, ["APP_LABEL", "variable"]]);
    const labelled = { ...container, labels: { app: "runtime" } };
    const api: PodLabels = { of: (id) => (id === "c1" ? { app: "cluster" } : null) };
    expect(factsOf({ environment, container: labelled }, files, api)?.app).toBe("file");
    expect(factsOf({ environment, container: labelled }, {}, api)?.app).toBe("variable");
    expect(factsOf({ environment: inPod, container: labelled }, {}, api)?.app).toBe("runtime");
    expect(factsOf({ environment: inPod, container }, {}, api)?.app).toBe("cluster");
    expect(factsOf({ environment: inPod, container }, {})?.app).toBeNull();
  });

  it("reads the configured label, and the recommended ones if it is not set", () => {
    const files = { "proc/42/root/etc/podinfo/labels": 'app="a"\nteam="b"\n' };
    expect(factsOf({ environment: inPod, label: "team" }, files)?.app).toBe("b");
    expect(factsOf({ environment: inPod }, { "proc/42/root/etc/podinfo/labels": 'app.kubernetes.io/name="c"\n' })?.app).toBe("c");
  });

  it("reads the namespace from the environment, the runtime or the service account", () => {
    const file = { "proc/42/root/var/run/secrets/kubernetes.io/serviceaccount/namespace": "prod\n" };
    expect(factsOf({ environment: new Map([...inPod, ["POD_NAMESPACE", "shop"]]) }, file)?.namespace).toBe("shop");
    expect(factsOf({ container: { ...container, pod: { name: "shop-0", namespace: "cri", container: null } } }, file)?.namespace).toBe(
      "cri",
    );
    expect(factsOf({ environment: inPod }, file)?.namespace).toBe("prod");
    expect(factsOf({ environment: inPod })?.namespace).toBeNull();
  });

  it("names the container only of a pod that has several", () => {
    const [api, metrics, sandbox] = ["a", "b", "c"].map((digit) => digit.repeat(64)) as [string, string, string];
    const bundle = (id: string, name?: string): Record<string, TreeEntry> => ({
      [`run/containerd/io.containerd.runtime.v2.task/k8s.io/${id}/config.json`]: JSON.stringify({
        annotations: { "io.kubernetes.cri.sandbox-name": "shop-0", ...(name ? { "io.kubernetes.cri.container-name": name } : {}) },
      }),
    });
    const pod = "kubepods.slice/kubepods-pod1.slice";
    const group = (id: string) => ({ [`sys/fs/cgroup/${pod}/cri-containerd-${id}.scope/cgroup.procs`]: "" });
    const asked = { ...container, id: api, pod: { name: "shop-0", namespace: null, container: "api" } };
    const question = { container: asked, cgroup: `/${pod}/cri-containerd-${api}.scope` };
    const alone = { ...bundle(api, "api"), ...group(api), ...bundle(sandbox), ...group(sandbox) };
    expect(factsOf(question, alone)?.container).toBeNull();
    const beside = (name: string) => factsOf(question, { ...alone, ...bundle(metrics, name), ...group(metrics) });
    expect(beside("metrics")).toMatchObject({ container: "api", isMainContainer: true });
    expect(beside("istio-proxy")).toMatchObject({ container: "api", isMainContainer: true });
    expect(beside("worker")).toMatchObject({ container: "api", isMainContainer: false });
    const labelled = { ...question, environment: new Map([["APP_LABEL", "api"]]) };
    expect(factsOf(labelled, { ...alone, ...bundle(metrics, "worker"), ...group(metrics) })).toMatchObject({
      app: "api",
      isMainContainer: true,
    });
  });

  it("derives the workload from the pod's name", () => {
    expect(factsOf({ environment: new Map([...inPod, ["HOSTNAME", "shop-api-7d9f8b6c5-x2x4z"]]) })).toEqual({
      app: null,
      workload: "shop-api",
      namespace: null,
      container: null,
      isMainContainer: false,
    });
    expect(factsOf({ cgroup: "/kubepods/burstable/pod1/c", environment: new Map([["POD_NAME", "db-2"]]) })?.workload).toBe("db");
    expect(factsOf({ container })?.workload).toBe("shop");
  });
});

describe("workloadOf()", () => {
  it.each([
    ["shop-api-7d9f8b6c5-x2x4z", "shop-api"],
    ["node-exporter-x7k2q", "node-exporter"],
    ["postgres-0", "postgres"],
    ["shop", null],
    ["my-laptop", null],
  ])("of %s is %j", (name, expected) => {
    expect(workloadOf(name)).toBe(expected);
  });
});

describe("parseLabels()", () => {
  it("reads quoted values and skips malformed lines", () => {
    expect([...parseLabels('app="sh\\"op"\nbad\nx=1\na/b="c"\n')]).toEqual([
      ["app", 'sh"op'],
      ["a/b", "c"],
    ]);
  });
});
