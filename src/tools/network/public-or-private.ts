/** Non-public address ranges: private, shared (RFC 6598), link-local, loopback, multicast. */
const privateV4 =
  /^(?:0|10|127|22[4-9]|2[3-5]\d)\.|^169\.254\.|^192\.168\.|^172\.(?:1[6-9]|2\d|3[01])\.|^100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\./;
const privateV6 = /^(?:::1?$|f[cd]|fe[89ab]|ff)/i;

/** `*` stands for addresses beyond a limit and counts as public: no private network reaches that many. */
export function publicOrPrivate(address: string): "public" | "private" {
  const plain = address.toLowerCase().startsWith("::ffff:") && address.includes(".") ? address.slice(7) : address;
  return (plain.includes(":") ? privateV6 : privateV4).test(plain) ? "private" : "public";
}
