import { describe, expect, it } from "vitest";
import { hostNotes } from "./host-notes.ts";
import { snapshotOf } from "./host-snapshot.fixture.ts";

const none = { someUs: null, fullUs: null };
const base = snapshotOf();

describe("hostNotes()", () => {
  it("has no notes when everything was read", () => {
    expect(hostNotes(base, [], 0)).toEqual([]);
  });

  it.each([
    ["hidepid", { processesHidden: true }, /hidepid/],
    [
      "unreadable processes",
      { processes: { ...base.processes, tally: { denied: 4, vanished: 9, failed: 0, truncated: 0 } } },
      /^4 processes cannot be read/,
    ],
    [
      "an unresponsive server",
      { mounts: { mounts: [], unresponsive: ["/nfs", "/nfs2"], failed: 0, cut: 0 } },
      /"\/nfs" and 1 more did not respond/,
    ],
    ["failed mounts", { mounts: { mounts: [], unresponsive: [], failed: 2, cut: 0 } }, /^2 file systems did not report usage/],
    ["too many cgroups", { cgroups: { ...base.cgroups, cut: 7 } }, /^7 cgroups/],
    ["too many interfaces", { interfaces: { interfaces: [], cut: 3 } }, /3 least used network interfaces/],
    ["no PSI", { pressure: { cpu: none, memory: none, io: none } }, /PSI/],
    ["no OOM counter", { virtualMemory: { ...base.virtualMemory, oomKills: null } }, /4\.13/],
  ])("notes %s", (_, more, expected) => {
    const notes = hostNotes(snapshotOf(more), [], 0);
    expect(notes).toHaveLength(1);
    expect(notes[0]).toMatch(expected);
  });

  it("notes which facts about the top processes are missing", () => {
    const row = {
      at: 1,
      mono_ms: 1,
      pid: 1,
      start_ticks: 1,
      name: "x",
      exe: null,
      user_id: 0,
      cgroup: null,
      state: "S",
      cpu_cores: 0,
      rss_bytes: 4096,
      threads: 1,
      open_files: null,
      major_faults_per_s: 0,
    };
    const kernelThread = { ...row, rss_bytes: 0, open_files: 0 };
    expect(hostNotes(base, [row, kernelThread], 0)).toEqual([
      expect.stringMatching(/^Executables of 1 of the 2 top processes/),
      expect.stringMatching(/^Open files of 1 of the 2 top processes/),
    ]);
  });

  it("notes reset counters, and ignores processes that exited", () => {
    const exited = { ...base.processes, tally: { denied: 0, vanished: 50, failed: 0, truncated: 0 } };
    expect(hostNotes(snapshotOf({ processes: exited }), [], 2)).toEqual([expect.stringMatching(/^2 kernel counters were reset/)]);
  });
});
