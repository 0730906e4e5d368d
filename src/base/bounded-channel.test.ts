import { expect, test } from "vitest";
import { BoundedChannel } from "./bounded-channel.ts";

test("BoundedChannel delivers items in order and ends after the last", async () => {
  const channel = new BoundedChannel<number>(2);
  const read: number[] = [];
  const reading = (async () => {
    for await (const item of channel) read.push(item);
  })();
  for (let item = 1; item <= 5; item++) expect(await channel.put(item)).toBe(true);
  channel.end(6);
  channel.end(7);
  await reading;
  expect(read).toEqual([1, 2, 3, 4, 5, 6]);
  expect(await channel.put(8)).toBe(false);
});

test("BoundedChannel.offer() counts items beyond the bound", async () => {
  const channel = new BoundedChannel<string>(2);
  expect(["a", "b", "c"].map((item) => channel.offer(item))).toEqual([true, true, false]);
  channel.end();
  expect(channel.offer("d")).toBe(false);
  expect(channel.dropped).toBe(2);
  const read: string[] = [];
  for await (const item of channel) read.push(item);
  expect(read).toEqual(["a", "b"]);
});

test("BoundedChannel releases waiting writers when its reader leaves", async () => {
  const channel = new BoundedChannel<number>(1);
  await channel.put(1);
  const waiting = channel.put(2);
  for await (const item of channel) {
    expect(item).toBe(1);
    break;
  }
  // Reading freed a slot and woke the writer; then the channel ended.
  await waiting;
  expect(await channel.put(3)).toBe(false);
});

test("BoundedChannel.takeWhile() returns accepted items from the front and frees their slots", async () => {
  const channel = new BoundedChannel<number>(3);
  for (const item of [1, 2, 9]) await channel.put(item);
  const waiting = channel.put(4);
  expect(channel.takeWhile((item) => item < 5)).toEqual([1, 2]);
  expect(await waiting).toBe(true);
  expect(channel.takeWhile((item) => item < 5)).toEqual([]);
  channel.end();
  const read: number[] = [];
  for await (const item of channel) read.push(item);
  expect(read).toEqual([9, 4]);
});
