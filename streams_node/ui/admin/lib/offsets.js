// Offset tokens, as protocol/offsets.py draws them: 26 digits of Crockford's base32 over epoch, entries, and 34 zero bits.
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LENGTH = 26;
const REST = 34n;

export function encode(epoch, seq) {
  let value = ((BigInt(epoch) << 64n) | BigInt(seq)) << REST;
  let text = "";
  for (let at = 0; at < LENGTH; at += 1) {
    text = ALPHABET[Number(value & 31n)] + text;
    value >>= 5n;
  }
  return text;
}

// The offset of the place before entry `seq`: it carries the epoch of the entry before it. `epochs` as `_details` has them.
export function offsetAt(epochs, seq) {
  const found = epochs.findLast((each) => seq > Number(each.first_offset)) ?? epochs[0];
  return encode(found.epoch, seq);
}

export function decode(token) {
  const text = token.trim().toUpperCase().replace(/O/g, "0").replace(/[IL]/g, "1");
  if (text.length !== LENGTH) return null;
  let value = 0n;
  for (const digit of text) {
    const number = ALPHABET.indexOf(digit);
    if (number < 0) return null;
    value = (value << 5n) | BigInt(number);
  }
  value >>= REST;
  return { epoch: Number(value >> 64n), seq: Number(value & ((1n << 64n) - 1n)) };
}
