"""BLAKE3, Ed25519 and RFC 6962 Merkle proofs in plain Python, to be read beside the standards. For check_bundle.py."""

import array
import functools
import hashlib
import sys

# --- BLAKE3. Python's integers serve as vectors: one 64-bit lane per chunk, its upper half room for carries.

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
MAX_LANES = 2048
COLUMNS_AND_DIAGONALS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                         (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def _steps():
    order, steps = list(range(16)), []
    for _ in range(7):
        steps += [quad + (order[2 * i], order[2 * i + 1]) for i, quad in enumerate(COLUMNS_AND_DIAGONALS)]
        order = [order[i] for i in (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)]
    return tuple(steps)


STEPS = _steps()


@functools.lru_cache(maxsize=64)
def _lanes(count):
    """A 1 in every lane, and the mask of every lane's lower half."""
    one = int.from_bytes(b"\1\0\0\0\0\0\0\0" * count, "little")
    return one, one * 0xFFFFFFFF


def _compress(cv, block, counter, length, flags, lanes):
    one, mask = _lanes(lanes)
    v = list(cv) + [iv * one for iv in IV[:4]] + [counter, 0, length * one, flags * one]
    for ia, ib, ic, id_, first, second in STEPS:
        a, b, c, d = v[ia], v[ib], v[ic], v[id_]
        a = (a + b + block[first]) & mask
        d ^= a
        d = (d >> 16 | d << 16) & mask
        c = (c + d) & mask
        b ^= c
        b = (b >> 12 | b << 20) & mask
        a = (a + b + block[second]) & mask
        d ^= a
        d = (d >> 8 | d << 24) & mask
        c = (c + d) & mask
        b ^= c
        v[ia], v[ib], v[ic], v[id_] = a, (b >> 7 | b << 25) & mask, c, d
    return [v[i] ^ v[i + 8] for i in range(8)]


def _spread(words):
    """A list of numbers, one per lane, as one integer."""
    return int.from_bytes(_little(array.array("Q", words)).tobytes(), "little")


def _gather(lanes, count):
    """The inverse of `_spread`."""
    words = array.array("Q")
    words.frombytes(lanes.to_bytes(8 * count, "little"))
    return _little(words)


def _little(words):
    if sys.byteorder == "big":
        words.byteswap()
    return words


def _full_chunks(data, first, count):
    """Chaining values of `count` chunks of 1024 bytes that start at chunk `first`."""
    words = array.array("I")
    assert words.itemsize == 4
    words.frombytes(data[1024 * first:1024 * (first + count)])
    words = _little(words)
    one, _ = _lanes(count)
    cv, counter = [iv * one for iv in IV], _spread(range(first, first + count))
    for index in range(16):
        block = [_spread(words[16 * index + word::256]) for word in range(16)]
        flags = (CHUNK_START if index == 0 else 0) | (CHUNK_END if index == 15 else 0)
        cv = _compress(cv, block, counter, 64, flags, count)
    return [_gather(word, count) for word in cv]


def _last_chunk(data, first, root):
    """Chaining value of the last chunk: 0 to 1024 bytes."""
    data = data[1024 * first:]
    cv, blocks = list(IV), max(1, -(-len(data) // 64))
    for index in range(blocks):
        part = data[64 * index:64 * (index + 1)]
        padded = part.ljust(64, b"\0")
        block = [int.from_bytes(padded[i:i + 4], "little") for i in range(0, 64, 4)]
        last = index == blocks - 1
        flags = (CHUNK_START if index == 0 else 0) | (CHUNK_END if last else 0) | (ROOT if last and root else 0)
        cv = _compress(cv, block, first, len(part), flags, 1)
    return cv


def blake3(data):
    """The BLAKE3 digest, 32 bytes."""
    if len(data) <= 1024:
        return b"".join(word.to_bytes(4, "little") for word in _last_chunk(data, 0, True))
    full = len(data) // 1024
    level = [array.array("Q") for _ in range(8)]
    for first in range(0, full, MAX_LANES):
        for column, more in zip(level, _full_chunks(data, first, min(MAX_LANES, full - first))):
            column.extend(more)
    if len(data) % 1024:
        for column, word in zip(level, _last_chunk(data, full, False)):
            column.append(word)
    # Pairing neighbours and carrying an odd last one up gives BLAKE3's tree: left subtrees are full.
    while len(level[0]) > 1:
        count = len(level[0])
        block = [_spread(column[0:count - 1:2]) for column in level] + [_spread(column[1::2]) for column in level]
        pairs = count // 2
        one, _ = _lanes(pairs)
        flags = PARENT | (ROOT if count == 2 else 0)
        above = _compress([iv * one for iv in IV], block, 0, 64, flags, pairs)
        odd = [column[-1] for column in level] if count % 2 else None
        level = [_gather(word, pairs) for word in above]
        if odd:
            for column, word in zip(level, odd):
                column.append(word)
    return b"".join(column[0].to_bytes(4, "little") for column in level)


def fastest_blake3():
    """The `blake3` module's function if it is installed, else ours."""
    try:
        import blake3 as module
    except ImportError:
        return blake3
    return lambda data: module.blake3(data).digest()


# --- Ed25519, strict: reduced S, reduced key, no point of small order, equation without cofactor.

P = 2 ** 255 - 19
L = 2 ** 252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)
IDENTITY = (0, 1, 1, 0)


def _add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _is_identity(p):
    return p[0] % P == 0 and (p[1] - p[2]) % P == 0


def decompress(data):
    """The point that these 32 bytes spell in their one lawful spelling, or None."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= P:
        return None
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if v * x * x % P != u:
        x = x * SQRT_M1 % P
    if v * x * x % P != u or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def compress(p):
    """A point's 32 bytes."""
    inverse = pow(p[2], P - 2, P)
    x, y = p[0] * inverse % P, p[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _small_order(p):
    for _ in range(3):
        p = _add(p, p)
    return _is_identity(p)


BASE = decompress((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def ed25519_verify(key, message, signature):
    """Whether this is the key's signature of the message."""
    point, s = decompress(key), int.from_bytes(signature[32:], "little")
    if point is None or len(signature) != 64 or s >= L or _small_order(point):
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    minus = ((P - point[0]) % P, point[1], 1, (P - point[3]) % P)
    both, r = _add(BASE, minus), IDENTITY
    for bit in range(252, -1, -1):
        r = _add(r, r)
        which = (s >> bit & 1) | (k >> bit & 1) << 1
        if which:
            r = _add(r, (None, BASE, minus, both)[which])
    return not _small_order(r) and compress(r) == signature[:32]


# --- Merkle tree, RFC 6962 and RFC 9162.


def leaf_hash(data):
    return hashlib.sha256(b"\0" + data).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def verify_inclusion(leaf, index, size, proof, root):
    """RFC 9162, 2.1.3.2."""
    if index >= size:
        return False
    fn, sn, r = index, size - 1, leaf
    for step in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            r = node_hash(step, r)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = node_hash(r, step)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and r == root


def verify_consistency(old, old_root, size, root, proof):
    """RFC 9162, 2.1.4.2."""
    if old == 0 or old > size:
        return False
    if old == size:
        return not proof and old_root == root
    path = ([old_root] if old & (old - 1) == 0 else []) + list(proof)
    if not path:
        return False
    fn, sn = old - 1, size - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = path[0]
    for step in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr, sr = node_hash(step, fr), node_hash(step, sr)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = node_hash(sr, step)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and fr == old_root and sr == root
