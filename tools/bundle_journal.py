"""A journal's tree and signatures, straight from the definitions, for the tests of check_bundle.py."""

import base64
import hashlib

import bundle_crypto as crypto


def split(n):
    return 1 << (n - 1).bit_length() - 1


def tree(leaves):
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256().digest()
    k = split(len(leaves))
    return crypto.node_hash(tree(leaves[:k]), tree(leaves[k:]))


def inclusion(index, leaves):
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if index < k:
        return inclusion(index, leaves[:k]) + [tree(leaves[k:])]
    return inclusion(index - k, leaves[k:]) + [tree(leaves[:k])]


def consistency(old, leaves, whole=True):
    if old == len(leaves):
        return [] if whole else [tree(leaves)]
    k = split(len(leaves))
    if old <= k:
        return consistency(old, leaves[:k], whole) + [tree(leaves[k:])]
    return consistency(old - k, leaves[k:], False) + [tree(leaves[:k])]


def times(scalar, point):
    result = crypto.IDENTITY
    for bit in bin(scalar)[2:]:
        result = crypto._add(result, result)
        if bit == "1":
            result = crypto._add(result, point)
    return result


class Key:
    """An Ed25519 key and the log that it signs."""

    def __init__(self, seed, name="lazaret.invalid/test"):
        h = hashlib.sha512(bytes([seed]) * 32).digest()
        self.scalar = int.from_bytes(h[:32], "little") & ((1 << 254) - 8) | 1 << 254
        self.prefix, self.name = h[32:], name
        self.public = crypto.compress(times(self.scalar, crypto.BASE))

    def id(self):
        return hashlib.sha256(self.name.encode() + b"\n\1" + self.public).digest()[:4]

    def text(self):
        return "%s+%s+%s" % (self.name, self.id().hex(), b64(b"\1" + self.public))

    def sign(self, message):
        r = int.from_bytes(hashlib.sha512(self.prefix + message).digest(), "little") % crypto.L
        point = crypto.compress(times(r, crypto.BASE))
        k = int.from_bytes(hashlib.sha512(point + self.public + message).digest(), "little")
        return point + ((r + k * self.scalar) % crypto.L).to_bytes(32, "little")

    def note(self, size, root):
        text = "%s\n%s\n%s\n" % (self.name, size, b64(root))
        return "%s\n\u2014 %s %s\n" % (text, self.name, b64(self.id() + self.sign(text.encode())))


def b64(data):
    return base64.b64encode(data).decode()
