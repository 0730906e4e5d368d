import { describe, expect, it } from "vitest";
import { createRouteTemplater, maxRouteLength, templateRoute } from "./route-template.ts";

/** Target, route. */
const table: readonly (readonly [string, string])[] = [
  ["/", "/"],
  ["", "unknown"],
  ["*", "*"],
  ["//", "/"],
  ["/?a=b", "/"],
  ["?a=b", "/"],
  ["/users", "/users"],
  ["/users/", "/users"],
  ["/users//orders", "/users/orders"],
  ["/users/42", "/users/{id}"],
  ["/users/42/orders/7?expand=items#top", "/users/{id}/orders/{id}"],
  ["/users/-1", "/users/{id}"],
  ["/users/550e8400-e29b-41d4-a716-446655440000", "/users/{id}"],
  ["/users/550E8400E29B41D4A716446655440000/posts", "/users/{id}/posts"],
  ["/users/%7B550e8400-e29b-41d4-a716-446655440000%7D", "/users/{id}"],
  ["/objects/507f1f77bcf86cd799439011", "/objects/{id}"],
  ["/repos/coral/commits/7390ca1f", "/repos/coral/commits/{id}"],
  ["/blobs/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "/blobs/{id}"],
  ["/v2/library/nginx/blobs/sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "/v2/library/nginx/blobs/{id}"],
  ["/v1/customers/cus_9s6XKzkNRiz8i3", "/v1/customers/{id}"],
  ["/v1/charges/ch_3MmlLrLkdIwHu7ix0snN0B15/capture", "/v1/charges/{id}/capture"],
  ["/watch/dQw4w9WgXcQ", "/watch/{id}"],
  ["/events/01ARZ3NDEKTSV4RRFFQ69G5FAV", "/events/{id}"],
  ["/n/V1StGXR8_Z5jdHi6B-myT", "/n/{id}"],
  ["/order/ORD-20240115-0042", "/order/{id}"],
  ["/invoices/INV00123", "/invoices/{id}"],
  ["/u/u12345", "/u/{id}"],
  ["/blog/2024/01/15/a-fine-day", "/blog/{id}/{id}/{id}/a-fine-day"],
  ["/reports/2024-01-15", "/reports/{id}"],
  ["/reports/2024-01-15T10:00:00Z", "/reports/{id}"],
  ["/reports/20240115", "/reports/{id}"],
  ["/hosts/10.1.2.3/ports/80", "/hosts/{id}/ports/{id}"],
  ["/hosts/2001:db8::1", "/hosts/{id}"],
  ["/users/alice@example.com", "/users/{id}"],
  ["/users/alice%40example.com/mail", "/users/{id}/mail"],
  ["/geo/48.8566,2.3522", "/geo/{id}"],
  ["/phone/+4930123456", "/phone/{id}"],
  ["/wiki/Caf%C3%A9", "/wiki/Café"],
  ["/produits/été/日本語", "/produits/été/日本語"],
  ["/%D0%BF%D0%BE%D0%BB%D1%8C%D0%B7%D0%BE%D0%B2%D0%B0%D1%82%D0%B5%D0%BB%D0%B8", "/пользователи"],
  ["/unlock/correct-horse-battery-staple", "/unlock/{id}"],
  ["/notes/Gravel.Otter.Plinth.Marmalade.42", "/notes/{id}"],
  ["/vault/CorrectHorseBatteryStaple/open", "/vault/{id}/open"],
  ["/passphrase/otter", "/passphrase/{id}"],
  ["/password/reset", "/password/reset"],
  ["/passwords/forgot-password", "/passwords/forgot-password"],
  ["/recovery/gravel-otter-plinth", "/recovery/{id}"],
  ["/forgot-password-reset-confirm", "/forgot-password-reset-confirm"],
  ["/monthly-active-users-report", "/monthly-active-users-report"],
  ["/people/078-05-1120", "/people/{id}"],
  ["/search/two%20words", "/search/{id}"],
  ["/files/a%2Fb", "/files/{id}"],
  ["/bad/%ff%fe", "/bad/{id}"],
  ["/bad/%4", "/bad/{id}"],
  ["/nul/a%00b", "/nul/{id}"],
  ["/shop;jsessionid=1A2B3C4D5E6F/cart;v=1", "/shop/cart"],
  ["/filter/color=red/size=xl", "/filter/color={id}/size={id}"],
  ["/api/v1/pods", "/api/v1/pods"],
  ["/apis/apps/v1beta1/deployments", "/apis/apps/v1beta1/deployments"],
  ["/api/7", "/api/{id}"],
  ["/api/42/orders", "/api/{id}/orders"],
  ["/rest/api/2/issue/CORAL-4711", "/rest/api/2/issue/{id}"],
  ["/api/v1/namespaces/kube-system/pods/coredns-7d9f8b6c5d-x2k4p/log", "/api/v1/namespaces/kube-system/pods/{id}/log"],
  ["/v1/projects/12345:cancel", "/v1/projects/{id}:cancel"],
  ["/v1/users:batchGet", "/v1/users:batchGet"],
  ["/odata/Users(12)/Orders", "/odata/Users({id})/Orders"],
  ["/odata/Users('alice')", "/odata/Users({id})"],
  ["/odata/$metadata", "/odata/$metadata"],
  ["/2015-03-31/functions/mail/invocations", "/{id}/functions/mail/invocations"],
  ["/.well-known/openid-configuration", "/.well-known/openid-configuration"],
  ["/@vite/client", "/@vite/client"],
  ["/oauth2/authorize", "/oauth2/authorize"],
  ["/getUserByIdAndNameOrMailAddress", "/getUserByIdAndNameOrMailAddress"],
  ["/getS3ObjectV2", "/getS3ObjectV2"],
  ["/internationalization/settings", "/internationalization/settings"],
  ["/en-US/docs/covid-19", "/en-US/docs/covid-19"],
  ["/python3/x509/base64", "/python3/x509/base64"],
  ["/index.html", "/index.html"],
  ["/404.html", "/404.html"],
  ["/favicon.ico", "/favicon.ico"],
  ["/assets/app.3f2a9c1b.js", "/assets/app.{id}.js"],
  ["/assets/main-4f3d2a1b9c8e7d6f.css.map", "/assets/main-{id}.css.map"],
  ["/static/index-BqL2x9Zk7Q.js", "/static/index-{id}.js"],
  ["/vendor/jquery-3.6.0.min.js", "/vendor/jquery-3.6.0.min.js"],
  ["/images/12345.jpg", "/images/{id}.jpg"],
  ["/images/IMG_20240115_101010.JPG", "/images/IMG_{id}_{id}.JPG"],
  ["/export/550e8400-e29b-41d4-a716-446655440000.pdf", "/export/{id}.pdf"],
  ["/wp-admin/admin-ajax.php?action=x", "/wp-admin/admin-ajax.php"],
  ["/reset/kJ8sQ2mZ", "/reset/{id}"],
  ["/verify/email", "/verify/email"],
  ["/verify-email/qSecretZq1", "/verify-email/{id}"],
  ["/account/resetPassword/kJ8sQ2mZ", "/account/resetPassword/{id}"],
  ["/access_tokens/kJ8sQ2mZ/revoke", "/access_tokens/{id}/revoke"],
  ["/verify-email/resend", "/verify-email/resend"],
  ["/monkeys/gibbon1/list", "/monkeys/gibbon1/list"],
  ["/auth/login", "/auth/login"],
  ["/invite/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "/invite/{id}"],
  ["/bot123456789:AAF-abcdefghijklmnopqrstuvwxyz0123456/getMe", "/{id}/getMe"],
  ["/t/ghp_abcdefghijklmnopqrstuvwxyz0123456789", "/t/{id}"],
  ["/x/AKIAIOSFODNN7EXAMPLE", "/x/{id}"],
  ["/k/QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "/k/{id}"],
  ["/jobs/abcdefghijklmnopqrstuvwxyzabcdef", "/jobs/{id}"],
  ["http://user:secret@example.com:8080/a/1?x=y", "/a/{id}"],
  ["https://example.com", "/"],
  ["example.com:443", "example.com:443"],
  ["user:pw@Example.com:443", "example.com:443"],
  ["10.0.0.1:443", "{id}:443"],
  ["[2001:db8::1]:443", "{id}:443"],
  ["/a/b/c/d/e/f/g/h/i/j/k/l/m/n", "/a/b/c/d/e/f/g/h/i/j/k/l/…"],
];

describe("templateRoute()", () => {
  it.each(table)("turns %s into the route %s", (target, route) => {
    expect(templateRoute(target)).toBe(route);
  });

  it("drops the last segment of a truncated target", () => {
    expect(templateRoute("/users/42/orde", true)).toBe("/users/{id}/…");
    expect(templateRoute("/users?na", true)).toBe("/users");
    expect(templateRoute("/us", true)).toBe("/…");
  });

  it("is idempotent", () => {
    for (const [, route] of table) if (route.startsWith("/") && !route.endsWith("…")) expect(templateRoute(route)).toBe(route);
  });

  it("respects its length limit for any input", () => {
    expect(templateRoute(`/${"word/".repeat(5000)}`)).toMatch(/\/…$/);
    expect(templateRoute(`/${"a".repeat(100_000)}`).length).toBeLessThanOrEqual(maxRouteLength);
    let seed = 42;
    const next = (): number => {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      return seed >> 8;
    };
    const alphabet = "/%?;:=@.,-_~0123456789abcXYZ é\u0000\n[]{}()";
    for (let round = 0; round < 3000; round++) {
      const target = Array.from({ length: next() % 200 }, () => alphabet[next() % alphabet.length]).join("");
      const route = templateRoute(target, round % 3 === 0);
      expect(route.length).toBeLessThanOrEqual(maxRouteLength);
      for (const character of route) expect(character > "\u001f" && character !== "?").toBe(true);
    }
  });
});

describe("createRouteTemplater()", () => {
  it("remembers a bounded number of targets", () => {
    const template = createRouteTemplater(4);
    for (let id = 0; id < 100; id++) expect(template(`/users/${id}`)).toBe("/users/{id}");
    expect(template("/users/4", true)).toBe("/users/…");
  });
});
