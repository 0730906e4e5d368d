import { describe, expect, it } from "vitest";
import { CoralError } from "../base/errors.ts";
import { explainBpfFailure } from "./explain-bpf-failure.ts";

const failure = (errno: number, log = ""): CoralError =>
  new CoralError({ code: "unsupported", message: `Cannot load: errno ${errno}`, details: { stage: "load", errno, log } });

describe("explainBpfFailure()", () => {
  it("names the package when the library is missing", () => {
    const error = new CoralError({ code: "unsupported", message: "libbpf.so.1: cannot open shared object file" });
    expect(explainBpfFailure(error, "raw_tp")).toEqual({
      text: "libbpf.so.1 does not load: libbpf.so.1: cannot open shared object file; apt-get install libbpf1",
      isLasting: true,
    });
  });

  it("reports the verifier's last message, whatever the errno", () => {
    const log =
      "libbpf: prog 'x': BPF program load failed: Permission denied\nlibbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n0: (b7) r0 = 0\nR1 invalid mem access 'scalar'\nprocessed 9 insns (limit 1000000)\n-- END PROG LOAD LOG --\n";
    expect(explainBpfFailure(failure(13, log), "raw_tp")).toEqual({
      text: "the kernel's verifier rejects the programs: R1 invalid mem access 'scalar'",
      isLasting: true,
    });
  });

  it("treats a lack of memory as temporary", () => {
    expect(explainBpfFailure(failure(12), "raw_tp")).toEqual({ text: "Cannot load: errno 12", isLasting: false });
    expect(explainBpfFailure(new Error("something else"), "raw_tp")).toEqual({ text: "something else", isLasting: false });
  });
});
