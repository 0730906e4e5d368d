// A minimal Redis client: one connection, replies in order.

import { connect } from "node:net";
import { ports } from "./program.mjs";

export class Redis {
  #socket;
  #waiting = [];
  #text = "";

  run(...words) {
    this.#socket ??= this.#connect();
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#socket.write(`*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`);
    });
  }

  #connect() {
    const socket = connect({ port: ports.redis, host: "127.0.0.1", noDelay: true });
    socket.setEncoding("latin1").on("data", (part) => {
      this.#text += part;
      while (this.#reply());
    });
    socket.on("error", () => socket.destroy());
    socket.on("close", () => {
      this.#socket = undefined;
      this.#text = "";
      for (const { reject } of this.#waiting.splice(0)) reject(new Error("connection to Redis lost"));
    });
    return socket;
  }

  /** Reads one complete reply from the received bytes. */
  #reply() {
    const end = this.#text.indexOf("\r\n");
    if (end < 0) return false;
    const [kind, rest] = [this.#text[0], this.#text.slice(1, end)];
    let [value, length] = [rest, end + 2];
    if (kind === "$" && Number(rest) < 0) value = null;
    else if (kind === "$") {
      if (this.#text.length < end + 4 + Number(rest)) return false;
      value = this.#text.slice(end + 2, end + 2 + Number(rest));
      length = end + 4 + Number(rest);
    }
    this.#text = this.#text.slice(length);
    const waiting = this.#waiting.shift();
    if (kind === "-") waiting?.reject(new Error(value));
    else waiting?.resolve(value);
    return true;
  }
}
