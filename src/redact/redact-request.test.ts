import { describe, expect, it } from "vitest";
import { startCpuClock } from "../base/cpu-time.fixture.ts";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { escapeControls, redactBody, redactHeaders, redactTarget } from "./redact-request.ts";

const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N";

describe("redactTarget()", () => {
  it.each([
    ["/users/42?page=2&sort=name", "/users/42?page=2&sort=name"],
    ["/login?user=bob&password=hunter2", "/login?user=bob&password=***"],
    ["/a?access_token=abc&x=1", "/a?access_token=***&x=1"],
    ["/a?api%5Fkey=abc", "/a?api%5Fkey=***"],
    ["/a?q=AKIAIOSFODNN7EXAMPLE", "/a?q=***"],
    [`/verify/${jwt}`, "/verify/***"],
    ["/token/abc123def/use", "/token/***/use"],
    ["/verify-email/kJ8sQ2mZ", "/verify-email/***"],
    ["/session/kJ8sQ2mZ/end", "/session/***/end"],
    ["/a;JSESSIONID=0123456789ab?PHPSESSID=kJ8sQ2mZ1&sid=kJ8sQ2mZ1", "/a;JSESSIONID=***?PHPSESSID=***&sid=***"],
    ["/back?code=kJ8sQ2mZ1&country_code=DE&state=open", "/back?code=***&country_code=DE&state=open"],
    ["/auth/login", "/auth/login"],
    ["/a;jsessionid=1;token=x/b?c", "/a;jsessionid=1;token=***/b?c"],
    ["http://bob:pw@host/a?b=c#frag", "http://***@host/a?b=c"],
    ["/a?next=https%3A%2F%2Fx%2F%3Ftoken%3Dabc", "/a?next=https://x/?token=***"],
    ["/a?card_number=4111111111111111", "/a?card_number=***"],
    ["/x\u001b[31m\n?a=\u0007", "/x\\u001b[31m\\n?a=\\u0007"],
    ["/people/078-05-1120/taxes", "/people/***/taxes"],
    ["/people/078%2D05%2D1120?other=219+09+9999", "/people/***?other=***"],
    ["/find?q=jane.doe%40example.com&to=jane%2540example.com", "/find?q=***&to=***"],
    ["/users/jane.doe@example.com/orders", "/users/***/orders"],
    ["/users/jane%2540example.com", "/users/***"],
    ["/unlock/correct-horse-battery-staple", "/unlock/***"],
    ["/vault/correct%20horse%20battery%20staple?hint=gravel%20otter%20plinth%20lamp", "/vault/***?hint=***"],
    ["/passphrase/otter", "/passphrase/***"],
    ["/password/reset", "/password/reset"],
    ["/pay/DE89370400440532013000", "/pay/***"],
    ["/call/%2B49%2030%201234567", "/call/***"],
    ["/call/+4915123456789/now?to=+4915123456789&cc=+49+151+2345678", "/call/***/now?to=***&cc=***"],
    ["/sum/1+2?q=c+++and+go", "/sum/1+2?q=c+++and+go"],
    ["/orders/2024-01-15/items/123-45", "/orders/2024-01-15/items/123-45"],
    ["/api/v1/update-user-profile-settings", "/api/v1/update-user-profile-settings"],
    ["*", "*"],
    ["host:443", "host:443"],
  ])("redacts %s to %s", (target, expected) => {
    expect(redactTarget(target)).toBe(expected);
  });
});

describe("redactHeaders()", () => {
  it("masks by name and by look", () => {
    expect(
      redactHeaders([
        [":method", "GET"],
        [":authority", "shop"],
        ["authorization", `Bearer ${jwt}`],
        ["authorization", "justatoken"],
        ["cookie", "a=b"],
        ["set-cookie", "id=1; Path=/"],
        ["x-api-key", "abc"],
        ["x-csrf-token", "abc"],
        ["trace-bin", "AAAA"],
        ["accept", "text/html"],
        ["x-note", `see ${jwt}`],
        ["referer", "https://u:p@shop/a?token=abc&b=c"],
        ["x-evil", "a\u001b]0;x\u0007\r\nb"],
        ["content-length", "12"],
        ["user-agent", "curl/7.88.1"],
        ["traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
      ]),
    ).toEqual([
      [":authority", "shop"],
      ["authorization", "Bearer ***"],
      ["authorization", "***"],
      ["cookie", "***"],
      ["set-cookie", "***"],
      ["x-api-key", "***"],
      ["x-csrf-token", "***"],
      ["trace-bin", "***"],
      ["accept", "text/html"],
      ["x-note", "see ***"],
      ["referer", "https://***@shop/a?token=***&b=c"],
      ["x-evil", "a\\u001b]0;x\\u0007\\u000d\\nb"],
      ["content-length", "12"],
      ["user-agent", "curl/7.88.1"],
      ["traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
    ]);
  });
});

const plain = { contentType: "", contentEncoding: "", isCut: false };

describe("redactBody()", () => {
  it.each([
    ["application/json", '{"user":"bob","password":"hunter2","n":1}', '{"user":"bob","password":"***","n":1}'],
    ["application/json", '{"auth":{"a":["x"],"b":"}"},"z":1}', '{"auth":"***","z":1}'],
    ["application/json", '{"items":[{"apiKey":"x\\"y"},{"cvv":123}]}', '{"items":[{"apiKey":"***"},{"cvv":"***"}]}'],
    ["application/json", `{"note":"${jwt}"}`, '{"note":"***"}'],
    ["application/json", '{"body":"{\\"password\\":\\"hunter2\\",\\"a\\":1}"}', '{"body":"{\\"password\\":\\"***\\",\\"a\\":1}"}'],
    [
      "application/json",
      '{"query":"mutation { login(password: \\"hunter2\\") { id } }"}',
      '{"query":"mutation { login(password: ***) { id } }"}',
    ],
    ["application/json", '{"next":"https://x/?token=abc&b=c"}', '{"next":"https://x/?token=***&b=c"}'],
    ["application/json", '{"body":"{\\"a\\":1,\\"password\\":\\"hun', '{"body":"{\\"a\\":1,\\"password\\":\\"***\\"'],
    [
      "application/json",
      '{"at":"2026-11-16T13:42:38Z","b":"a \\"quoted\\" word: x"}',
      '{"at":"2026-11-16T13:42:38Z","b":"a \\"quoted\\" word: x"}',
    ],
    ["application/json", '{"sessionId":"kJ8sQ2mZ1","state":"open"}', '{"sessionId":"***","state":"open"}'],
    ["", '{"clientSecret": "abc', '{"clientSecret": "***"'],
    ["application/x-www-form-urlencoded", "user=bob&password=hunter2&x=1", "user=bob&password=***&x=1"],
    ["", "user=bob&pin=1234", "user=bob&pin=***"],
    [
      "text/xml",
      '<a><password type="x">hunter2</password><u token="abc">b</u></a>',
      '<a><password type="x">***</password><u token="***">b</u></a>',
    ],
    [
      "multipart/form-data; boundary=B",
      '--B\r\nContent-Disposition: form-data; name="password"\r\n\r\nhunter2\r\n--B\r\nContent-Disposition: form-data; name="user"\r\n\r\nbob\r\n--B--',
      '--B\nContent-Disposition: form-data; name="password"\n\n***\n--B\nContent-Disposition: form-data; name="user"\n\nbob\n--B--',
    ],
    ["text/plain", "password: hunter2\nhello", "password: ***\nhello"],
    ["text/plain", "bell \u0007 and \u001b[2J \u202e", "bell \\u0007 and \\u001b[2J \\u202e"],
    ["text/plain", "grüße", "grüße"],
    ["application/json", '{"note":"SSN 078-05-1120, jane@example.com"}', '{"note":"SSN ***, ***"}'],
    ["application/json", '{"to":"jane\\u0040example.com","n":"jane%40example.com"}', '{"to":"***","n":"***"}'],
    [
      "text/plain",
      "SELECT * FROM t WHERE ssn = '078-05-1120' AND mail LIKE 'bob@x.org'",
      "SELECT * FROM t WHERE ssn = *** AND mail LIKE '***'",
    ],
    ["text/xml", "<a>jane&#64;example.com</a><b>078 05 1120</b>", "<a>***</a><b>***</b>"],
    ["text/plain", "see /x?card=4111%201111%201111%201111 at 10:15", "see /x?card=*** at 10:15"],
    ["text/plain", "page 12 of 2024-01-15, build 1.2.3-4567, +00:00", "page 12 of 2024-01-15, build 1.2.3-4567, +00:00"],
  ])("%s: redacts %s to %s", (contentType, body, expected) => {
    expect(redactBody(Buffer.from(body), { ...plain, contentType })).toBe(expected);
  });

  it("shows nothing of binary and compressed bodies", () => {
    const hidden = "(binary, the first 4 bytes are not shown)";
    expect(redactBody(Buffer.from([0, 1, 2, 3]), plain)).toBe(hidden);
    expect(redactBody(Buffer.from([0xff, 0xfe, 0x80, 0x90]), plain)).toBe(hidden);
    expect(redactBody(Buffer.from("abcd"), { ...plain, contentEncoding: "gzip" })).toBe(hidden);
    expect(redactBody(Buffer.alloc(300, 0xff), plain)).toContain("binary");
  });

  it("drops what may be the first half of a secret", () => {
    expect(redactBody(Buffer.from('{"a":"one","note":"ghp_abcdef'), { ...plain, isCut: true })).toBe('{"a":"one","note":"…');
    expect(redactBody(Buffer.from('{"a":"one","password":"hun'), { ...plain, isCut: true })).toBe('{"a":"one","password":"***"');
  });

  it("never shows a planted secret, wherever it is", () => {
    const secrets = ["hunter2hunter2", jwt, "AKIAIOSFODNN7EXAMPLE", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"];
    const random = new SeededRandom(8);
    for (let round = 0; round < 2000; round++) {
      const secret = random.pick(secrets);
      const key = secret.startsWith("hunter")
        ? random.pick(["password", "db_password", "userPassword", "secret", "client-secret"])
        : "note";
      const filler = "abc ".repeat(random.below(10)).trim();
      const body = random.pick([
        `{"x":"${filler}","${key}":"${secret}"}`,
        `[{"${key}" : "${secret}"}]`,
        JSON.stringify({ x: filler, body: JSON.stringify({ [key]: secret }) }),
        `x=${filler.replaceAll(" ", "+")}&${key}=${secret}`,
        `<r><${key}>${secret}</${key}></r>`,
        `${filler}\n${key}=${secret}\n`,
      ]);
      const cutAt = random.below(3) === 0 ? 1 + random.below(body.length) : body.length;
      const shown = redactBody(Buffer.from(body.slice(0, cutAt)), { ...plain, isCut: cutAt < body.length });
      expect(shown).not.toContain(secret.slice(0, 10));
    }
  });

  it("stays fast on unusual bodies", () => {
    const cpuMs = startCpuClock();
    for (const body of [
      '"'.repeat(4000),
      "{".repeat(4000),
      "<a ".repeat(1300),
      "a=".repeat(2000),
      "\\".repeat(4000),
      `name="${"\r\n".repeat(2000)}`,
      `"a":`.repeat(1000),
      `"a=\\"`.repeat(800),
    ]) {
      for (const contentType of [
        "application/json",
        "text/xml",
        "multipart/form-data",
        "text/plain",
        "application/x-www-form-urlencoded",
      ]) {
        redactBody(Buffer.from(body), { ...plain, contentType });
      }
    }
    expect(cpuMs()).toBeLessThan(2_000);
  });
});

describe("escapeControls()", () => {
  it("keeps line breaks and tabs", () => {
    expect(escapeControls("a\tb\nc\u0000\u200b\u2066\u007f")).toBe("a\tb\nc\\u0000\\u200b\\u2066\\u007f");
  });
});
