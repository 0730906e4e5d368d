import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ElfImage, findElfFunctions, readElfImage } from "../../code/index.ts";
import { type CopyPlan, methodName, planCopies } from "./copy-plan.ts";
import { hideFunctionTable } from "./hidden-function-table.fixture.ts";

const compiler = ["cc", "gcc", "clang"].find((name) => spawnSync(name, ["--version"]).status === 0);

/** A function with its own entry in the unwind tables, exported by name. */
const functionOf = (name: string, body: string): string => `
  .globl ${name}
  .type ${name}, @function
${name}:
  .cfi_startproc
  ${body}
  .cfi_endproc
  .size ${name}, . - ${name}
`;

/** The site of a copy, exported by name. */
const copySite = (name = "copy_site", call = "call memcpy@plt"): string => `
  .globl ${name}
  .type ${name}, @function
${name}: ${call}
  .size ${name}, . - ${name}
`;

/** ssl3_read(ssl, buffer, length) calls method->ssl_read_bytes(ssl, 23, NULL, buffer, length, 0), the third entry of the table. */
const reading = (change: { kind?: number; received?: string; place?: number } = {}): string => `
  mov 8(%rdi), %rax
  mov %rdx, %r8
  mov %rsi, %rcx
  xor %r9d, %r9d
  ${change.received ?? "xor %edx, %edx"}
  mov $${change.kind ?? 23}, %esi
  sub $8, %rsp
  call *${change.place ?? 16}(%rax)
  add $8, %rsp
  ret`;

/** ssl3_read_bytes(ssl, type, received_type, buffer, length, peek) with its saved arguments, and a copy to the buffer. */
const keepingInRegisters = (site = copySite()): string => `
  push %r12
  push %r13
  push %r14
  push %rbx
  sub $8, %rsp
  mov %rdi, %r12
  mov %esi, %r13d
  mov %r9d, %r14d
  mov %rcx, %rbx
  mov %rbx, %rdi
  lea 64(%r12), %rsi
  mov %r8, %rdx
  ${site}
  add $8, %rsp
  pop %rbx
  pop %r14
  pop %r13
  pop %r12
  ret`;

const keepingOnStack = `
  push %rbx
  sub $64, %rsp
  mov %rdi, 8(%rsp)
  mov %esi, 20(%rsp)
  mov %r9d, 24(%rsp)
  mov %rcx, %rbx
  mov %rbx, %rdi
  lea 64(%rdi), %rsi
  mov %r8, %rdx
  ${copySite()}
  add $64, %rsp
  pop %rbx
  ret`;

interface Program {
  method?: string;
  reads?: string;
  copies?: string;
  /** Further functions. */
  more?: string;
  /** The table, as names or numbers. */
  table?: readonly (string | number)[];
}

const sourceOf = ({
  method = "lea table(%rip), %rax\n  ret",
  reads = reading(),
  copies = keepingInRegisters(),
  more = "",
  table,
}: Program) => `
  .text
${functionOf(methodName, method)}${functionOf("reads", reads)}${functionOf("copies", copies)}${more}
  .section .data.rel.ro, "aw"
table:
${[...(table ?? [0x304, "reads", "copies"]), ...Array(32).fill(0)].map((word) => `  .quad ${word}`).join("\n")}
  .section .note.GNU-stack, "", @progbits
`;

const cookieOf = (...places: [number, number, number]): number => places[0] + places[1] * 2 ** 16 + places[2] * 2 ** 32;
/** rbx, rbp, r12, r13, r14 and r15 are 0 to 5. */
const register = (number: number): number => 0x8000 + number;

const imageOf = (bytes: Buffer): ElfImage => {
  const image = readElfImage((into, offset) => bytes.copy(into, 0, offset));
  if (image === null) throw new Error("Not an ELF file");
  return image;
};
const planOf = (image: ElfImage): CopyPlan | null => planCopies(image, findElfFunctions(image, [methodName]));

describe.skipIf(process.arch !== "x64" || compiler === undefined)("planCopies() in a library made for it", () => {
  let directory = "";
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "coral-copies-"));
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  function build(program: Program, options = ["-shared", "-Wl,-Bsymbolic"]): ElfImage {
    const [source, file] = [join(directory, "library.s"), join(directory, "library.so")];
    writeFileSync(source, sourceOf(program));
    execFileSync(compiler ?? "", [...options, "-nostdlib", "-Wl,--eh-frame-hdr", "-o", file, source], { stdio: "pipe" });
    return imageOf(readFileSync(file));
  }
  const siteIn = (image: ElfImage, name = "copy_site"): number | undefined => findElfFunctions(image, [name]).get(name)?.fileOffset;
  const probe = (image: ElfImage, cookie: number, name?: string) => ({
    program: "tls_copy",
    isReturn: false,
    fileOffset: siteIn(image, name),
    cookie,
  });

  it("finds the registers that hold the object, the record type and the peek flag", () => {
    const image = build({});
    expect(planOf(image)?.probes).toEqual([probe(image, cookieOf(register(2), register(3), register(4)))]);
    expect(planOf(image)?.costNs).toBeGreaterThan(0);
  });

  it("finds stack slots", () => {
    const image = build({ copies: keepingOnStack });
    expect(planOf(image)?.probes).toEqual([probe(image, cookieOf(8, 20, 24))]);
  });

  it("plans every copy, each with its own locations", () => {
    const image = build({
      copies: keepingInRegisters(`${copySite()}
  mov %r12, %r15
  xor %r12d, %r12d
  mov %rbx, %rdi
  ${copySite("second_site")}`),
    });
    expect(planOf(image)?.probes).toEqual([
      probe(image, cookieOf(register(2), register(3), register(4))),
      probe(image, cookieOf(register(5), register(3), register(4)), "second_site"),
    ]);
  });

  it("finds the caller behind a function that forwards to it", () => {
    const image = build({
      table: [0x304, "outer", "copies"],
      more: functionOf("outer", "jmp reads_inner") + functionOf("reads_inner", reading()),
      reads: "ret",
    });
    expect(planOf(image)?.probes).toHaveLength(1);
  });

  it("accepts a table at a fixed address", () => {
    const image = build({ method: "mov $table, %eax\n  ret", copies: keepingInRegisters(copySite("copy_site", "call reads")) }, [
      "-static",
      "-no-pie",
      `-Wl,-e,${methodName}`,
    ]);
    expect(planOf(image)?.probes).toEqual([probe(image, cookieOf(register(2), register(3), register(4)))]);
  });

  it.each<[string, Program]>([
    ["no function reads application data", { reads: "ret" }],
    ["handshake records are read", { reads: reading({ kind: 22 }) }],
    ["the received type is requested", { reads: reading({ received: "mov %rsp, %rdx" }) }],
    ["the slot is outside the table", { reads: reading({ place: 32 * 8 }) }],
    ["the slot holds no function", { reads: reading({ place: 0 }) }],
    [
      "two functions read through different slots",
      { table: [0, "reads", "copies", "other"], more: functionOf("other", reading({ place: 24 })) },
    ],
    ["the caller is too large", { reads: `${reading()}\n  .skip 1100, 0x90` }],
    ["nothing is copied to the buffer", { copies: keepingInRegisters("mov %r12, %rdi\n  call memcpy@plt") }],
    ["the object is not kept", { copies: keepingInRegisters(`xor %r12d, %r12d\n  ${copySite()}`) }],
    [
      "the peek flag is kept only in a register that calls overwrite",
      { copies: keepingInRegisters(`call malloc@plt\n  mov %rbx, %rdi\n  ${copySite()}`).replace("mov %r9d, %r14d", "") },
    ],
    ["the kernel cannot emulate the call", { copies: keepingInRegisters(copySite("copy_site", "call *%r15")) }],
    ["the method returns an unknown value", { method: "mov 8(%rdi), %rax\n  ret" }],
    ["the method calls other functions", { method: "call memcpy@plt\n  lea table(%rip), %rax\n  ret" }],
  ])("makes no plan when %s", (_when, program) => {
    expect(planOf(build(program))).toBeNull();
  });

  it("makes no plan without the method, or without the function table", () => {
    expect(planCopies(build({}), new Map())).toBeNull();
    const bytes = readFileSync(join(directory, "library.so"));
    expect(planOf(imageOf(bytes))).not.toBeNull();
    hideFunctionTable(bytes);
    expect(planOf(imageOf(bytes))).toBeNull();
  });
});

const libssl = ["/usr/lib/x86_64-linux-gnu/libssl.so.3", "/usr/lib64/libssl.so.3"].find((path) => existsSync(path));

describe.skipIf(process.arch !== "x64" || libssl === undefined)("planCopies() in this machine's libssl", () => {
  it("finds calls, and for each the locations of three arguments", () => {
    const bytes = readFileSync(libssl ?? "");
    const plan = planOf(imageOf(bytes));
    expect(plan?.probes.length).toBeGreaterThan(0);
    for (const { fileOffset, cookie } of plan?.probes ?? []) {
      expect(bytes[fileOffset]).toBe(0xe8);
      for (const shift of [0, 16, 32]) {
        const place = Math.floor(cookie / 2 ** shift) % 2 ** 16;
        expect(place < 128 || (place >= 0x8000 && place < 0x8006), `place ${place}`).toBe(true);
      }
    }
  });
});
