/** Addresses that are not of the internet: private, shared, link-local, loopback, multicast. */
const privateV4 =
  /^(?:0|10|127|22[4-9]|2[3-5]\d)\.|^169\.254\.|^192\.168\.|^172\.(?:1[6-9]|2\d|3[01])\.|^100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\./;
const privateV6 = /^(?:::1?$|f[cd]|fe[89ab]|ff)/i;

/** `*`, the addresses beyond a limit, counts as public: only the internet has that many. */
export function addressScope(address: string): "public" | "private" {
  const plain = address.toLowerCase().startsWith("::ffff:") && address.includes(".") ? address.slice(7) : address;
  return (plain.includes(":") ? privateV6 : privateV4).test(plain) ? "private" : "public";
}
