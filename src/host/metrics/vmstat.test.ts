import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { hasSaneNumbers } from "../host-tree.fixture.ts";
import { parseVmStat } from "./vmstat.ts";

describe("parseVmStat()", () => {
  const linux6 = "nr_free_pages 1961709\npgpgin 13683125\npswpin 12\npswpout 34\npgmajfault 999\noom_kill 2\nswap_ra 0\n";
  it.each([
    ["linux 6", linux6, { swapInPages: 12, swapOutPages: 34, oomKills: 2 }],
    ["linux 3.10, without oom_kill", "nr_free_pages 5\npswpin 0\npswpout 7\n", { swapInPages: 0, swapOutPages: 7, oomKills: null }],
    ["first line wanted, no end of line", "oom_kill 3", { swapInPages: 0, swapOutPages: 0, oomKills: 3 }],
    ["a longer key that ends alike", "zpswpin 5\nmy oom_kill 9\n", { swapInPages: 0, swapOutPages: 0, oomKills: null }],
    ["nothing", "", { swapInPages: 0, swapOutPages: 0, oomKills: null }],
  ])("reads %s", (_, text, expected) => {
    expect(parseVmStat(text)).toEqual(expected);
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([linux6], 3)) expect(hasSaneNumbers(parseVmStat(text)), JSON.stringify(text)).toBe(true);
  });
});
