import { expect, it } from "vitest";
import { UnseenProcesses } from "./unseen-requests.ts";

const second = 1_000_000_000n;

it("reports processes while they run: unix sockets for five minutes, io_uring always", () => {
  let entries: [pid: number, reason: number, count: number][] = [];
  const running = new Set([7, 8]);
  const unseen = new UnseenProcesses({
    map: {
      takeAll: (visit) => {
        for (const [pid, reason, count] of entries) {
          const key = Buffer.alloc(8);
          key.writeUInt32LE(pid);
          key.writeUInt32LE(reason, 4);
          const value = Buffer.alloc(8);
          value.writeBigUInt64LE(BigInt(count));
          visit(key, 0, value, 0);
        }
        entries = [];
        return 0;
      },
    },
    isRunning: (pid) => running.has(pid),
  });
  entries = [
    [7, 1, 5],
    [8, 2, 3],
    [9, 1, 1],
    [8, 77, 1],
  ];
  expect(unseen.take(second)).toEqual([
    { pid: 7, reason: "unix-socket", detail: "", count: 5 },
    { pid: 8, reason: "io-uring", detail: "", count: 3 },
    { pid: 9, reason: "unix-socket", detail: "", count: 1 },
  ]);
  expect(unseen.take(200n * second).map(({ pid, count }) => [pid, count])).toEqual([
    [7, 1],
    [8, 1],
  ]);
  expect(unseen.take(400n * second).map(({ pid }) => pid)).toEqual([8]);
  running.delete(8);
  expect(unseen.take(401n * second)).toEqual([]);
});
