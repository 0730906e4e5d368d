import { describe, expect, it } from "vitest";
import { secrecyOfName } from "../../redact/index.ts";
import { ByteDictionary } from "./byte-dictionary.ts";
import { sourceOf } from "./byte-writer.ts";
import { SecretFilter } from "./secret-filter.ts";

const filter = new SecretFilter();

function kept(name: string, value: string): string {
  const bytes = Buffer.from(value);
  return filter.instead(bytes, 0, bytes.length, secrecyOfName(name)) ?? value;
}

describe("SecretFilter", () => {
  it.each([
    ["http.request.header.authorization", "Bearer abc"],
    ["http.request.header.cookie", "session=1"],
    ["http.request.header.x-api-key", "k"],
    ["db.password", "x"],
    ["aws.secret", "y"],
    ["process.command_args", "psql --password x"],
    ["process.command_line", "psql -W x"],
  ])("masks %s regardless of its value", (name, value) => {
    expect(kept(name, value)).toBe("***");
  });

  it.each([
    ["url.full", "https://joe:pw123@example.org/a", "https://***@example.org/a"],
    ["url.full", "https://example.org/a?api_key=abcdef123456&page=2", "https://example.org/a?api_key=***&page=2"],
    ["note", "calls with Bearer abcdefghijk", "calls with Bearer ***"],
    ["note", '{"password":"hunter2","user":"joe"}', '{"password":"***","user":"joe"}'],
    ["id", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk", "***"],
    ["cloud", "AKIAIOSFODNN7EXAMPLE", "***"],
    ["page.token", "aB3dE6fG9hJ2kL5mN8", "***"],
  ])("masks what is secret in %s %s", (name, value, expected) => {
    expect(kept(name, value)).toBe(expected);
  });

  it.each([
    ["messaging.kafka.message.key", "order-12345"],
    ["feature_flag.key", "new-checkout"],
    ["http.route", "/orders/{id}"],
    ["user_agent.original", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"],
    ["server.address", "db-7.internal.example.org"],
    ["request.id", "0f8fad5b-d9cb-469f-a165-70867728950e"],
    ["error", "Cannot find order 17: it was removed"],
    ["auth.type", "oidc"],
  ])("keeps %s %s unchanged", (name, value) => {
    expect(kept(name, value)).toBe(value);
  });

  it("finds a secret after its caches were cleared", () => {
    for (let index = 0; index < 20_000; index++) kept(`name.${index}`, `some text ${index}`);
    expect(kept("db.password", "x")).toBe("***");
    expect(kept("note", "calls with Bearer abcdefghijk")).toBe("calls with Bearer ***");
  });
});

describe("codeIn()", () => {
  const codeOf = (dictionary: ByteDictionary, value: string): number =>
    filter.codeIn(dictionary, sourceOf(Buffer.from(value)), 0, Buffer.byteLength(value));

  it("maps a text with a secret to the code of the masked text, every time, in each batch and dictionary", () => {
    const dictionaries = [new ByteDictionary(), new ByteDictionary()] as const;
    for (let round = 0; round < 3; round++) {
      for (const dictionary of dictionaries) {
        for (let index = 0; index < 3_000; index++) codeOf(dictionary, `route-${round}-${index}`);
        const codes = [1, 2].map(() => codeOf(dictionary, "GET /a?api_key=abcdef123456"));
        expect(codes.map((code) => dictionary.textOf(code))).toEqual(["GET /a?api_key=***", "GET /a?api_key=***"]);
        expect(dictionary.textOf(codeOf(dictionary, "GET /a"))).toBe("GET /a");
      }
      dictionaries[round % 2]?.reset();
    }
  });
});
