/** Golden recording of an agent: `coral audit replay` must keep reading it. */

import { expect, it } from "vitest";
import { readCast } from "./asciicast.ts";

const golden = String.raw`{"version":2,"width":80,"height":24,"timestamp":1767225600,"title":"top -b","env":{"TERM":"xterm-256color","SHELL":"/bin/sh"}}
[0,"o","$ gr"]
[0,"o","üße\r\n"]
[0.25,"r","100x40"]
[1.2505,"o","\u001b[1mdone\u001b[0m"]
`;

it("readCast() reads a recording that an agent stored", async () => {
  async function* parts(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(golden);
  }
  const items = [];
  for await (const item of readCast(parts())) items.push(item);
  expect(items).toEqual([
    { width: 80, height: 24, timestamp: 1_767_225_600, title: "top -b" },
    { atMs: 0, kind: "o", data: "$ gr" },
    { atMs: 0, kind: "o", data: "üße\r\n" },
    { atMs: 250, kind: "r", data: "100x40" },
    { atMs: 1_250.5, kind: "o", data: "\u001b[1mdone\u001b[0m" },
  ]);
});
