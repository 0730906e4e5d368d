import { describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { demangle } from "./demangle.ts";

describe("demangle()", () => {
  it.for([
    ["_ZN4node7FastRunEi", "node::FastRun"],
    ["_ZNK2v88internal4Heap4SizeEv", "v8::internal::Heap::Size"],
    ["_ZN2v88internal12_GLOBAL__N_16InvokeEPNS0_7IsolateERKNS1_12InvokeParamsE", "v8::internal::(anonymous)::Invoke"],
    ["_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector::push_back"],
    ["_ZNSt6vectorIN3foo3barESaIS1_EEC2Ev", "std::vector::vector"],
    ["_ZN3foo3barILb1EE3runEv", "foo::bar::run"],
    ["_ZN4tree4NodeD0Ev", "tree::Node::~Node"],
    ["_ZNK4tree4NodeeqERKS0_", "tree::Node::operator=="],
    ["_ZN4tree4NodenwEm", "tree::Node::operator new"],
    ["_ZL8do_thingPKc", "do_thing"],
    ["_Z8do_thingPKc.part.0", "do_thing"],
    ["_ZSt4moveIRiEvT_", "std::move"],
    ["_ZZN3foo3barEvENKUlvE_clEv", "foo::bar"],
    ["_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"],
    [
      "_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
      "<alloc::string::String as core::fmt::Debug>::fmt",
    ],
    ["main", "main"],
    ["_ZN", "_ZN"],
    ["_ZN4nodeXX", "_ZN4nodeXX"],
    ["_ZN99999fooE", "_ZN99999fooE"],
  ] as const)("%s → %s", ([name, expected]) => {
    expect(demangle(name)).toBe(expected);
  });

  it("returns a name for any text", () => {
    const random = new SeededRandom(11);
    const letters = "NESILZX0123456789abcdT_ClD";
    for (let round = 0; round < 20_000; round++) {
      const text = `_Z${Array.from({ length: random.below(40) }, () => letters[random.below(letters.length)]).join("")}`;
      expect(demangle(text).length).toBeGreaterThan(0);
    }
  });
});
