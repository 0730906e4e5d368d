import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, type TreeEntry } from "../host-tree.fixture.ts";
import { type ContainerFacts, createContainerReader } from "./container-facts.ts";

const id = "3f2a".repeat(16);
const read = (files: Record<string, TreeEntry>): ContainerFacts => {
  using tree = createHostTree(files);
  return createContainerReader(createHostRoot(tree.root)).of({ id, runtime: "unknown" });
};
const docker = (labels: Record<string, string> = {}, name = "/shop-api-1", image?: string): string =>
  JSON.stringify({ ID: id, Name: name, Config: { Labels: labels, Image: image } });
const bundle = (annotations: Record<string, string>): string => JSON.stringify({ ociVersion: "1.1.0", annotations });

describe("createContainerReader()", () => {
  it("reads Docker's name, and the service of Compose and Swarm", () => {
    const path = `var/lib/docker/containers/${id}/config.v2.json`;
    expect(read({ [path]: docker() })).toMatchObject({ runtime: "docker", name: "shop-api-1", service: null });
    expect(read({ [path]: docker({ "com.docker.compose.service": "api" }) })).toMatchObject({ name: "shop-api-1", service: "api" });
    expect(read({ [path]: docker({ "com.docker.swarm.service.name": "shop_api" }) }).service).toBe("shop_api");
    expect(
      read({ "etc/docker/daemon.json": '{"data-root":"/srv/docker"}', [`srv/docker/containers/${id}/config.v2.json`]: docker() }).name,
    ).toBe("shop-api-1");
  });

  it("reads the Compose project, and the image without tag and digest", () => {
    const path = `var/lib/docker/containers/${id}/config.v2.json`;
    const compose = { "com.docker.compose.service": "api", "com.docker.compose.project": "shop" };
    expect(read({ [path]: docker(compose, "/shop-api-1", "registry:5000/acme/api:1.4@sha256:00ff") })).toMatchObject({
      project: "shop",
      image: "registry:5000/acme/api",
    });
    expect(read({ [path]: docker({}, "/x", "sha256:00ff00ff00ff") }).image).toBeNull();
    expect(read({ [path]: docker({}, "/x", "redis") }).image).toBe("redis");
  });

  it("reads pods from containerd, CRI-O and Docker", () => {
    const containerd = {
      "io.kubernetes.cri.container-name": "api",
      "io.kubernetes.cri.sandbox-name": "shop-7d9f8b6c5-x2x4z",
      "io.kubernetes.cri.sandbox-namespace": "prod",
    };
    expect(read({ [`run/containerd/io.containerd.runtime.v2.task/k8s.io/${id}/config.json`]: bundle(containerd) })).toMatchObject({
      name: "api",
      pod: { name: "shop-7d9f8b6c5-x2x4z", namespace: "prod", container: "api" },
    });
    const crio = {
      "io.kubernetes.container.name": "api",
      "io.kubernetes.pod.name": "shop-0",
      "io.kubernetes.cri-o.Labels": '{"app":"shop","x":1}',
    };
    expect(read({ [`run/containers/storage/overlay-containers/${id}/userdata/config.json`]: bundle(crio) })).toMatchObject({
      name: "api",
      pod: { name: "shop-0", container: "api" },
      labels: { app: "shop" },
    });
  });

  it("reads the names of nerdctl and Podman", () => {
    expect(
      read({ [`run/containerd/io.containerd.runtime.v2.task/default/${id}/config.json`]: bundle({ "nerdctl/name": "web" }) }).name,
    ).toBe("web");
    const list = JSON.stringify([
      { id: "other", names: ["no"] },
      { id, names: ["cache", "alias"] },
    ]);
    expect(read({ "var/lib/containers/storage/overlay-containers/containers.json": list }).name).toBe("cache");
  });

  it("uses the id of LXC and nspawn containers as their name, and has none if no runtime reports it", () => {
    using tree = createHostTree();
    const reader = createContainerReader(createHostRoot(tree.root));
    expect(reader.of({ id: "shop", runtime: "lxc" }).name).toBe("shop");
    expect(reader.of({ id, runtime: "docker" })).toEqual({
      id,
      runtime: "docker",
      name: null,
      service: null,
      project: null,
      image: null,
      pod: null,
      labels: {},
    });
  });

  it("tolerates malformed files and sanitizes names", () => {
    const path = `var/lib/docker/containers/${id}/config.v2.json`;
    for (const text of damagedTexts([docker({ a: "b" }), '{"Name":7}', "[]", "null"], 51, 100)) expect(read({ [path]: text }).id).toBe(id);
    expect(read({ [path]: docker({}, "/a\u001b[31m\u202eb") }).name).toBe("a[31mb");
  });
});
