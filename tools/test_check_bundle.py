#!/usr/bin/env python3
"""Tests of check_bundle.py: known vectors, a bundle made here, and a tampering for every rule of docs/bundle.md."""

import copy
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import bundle_crypto as crypto
import bundle_shapes as shapes
import check_bundle
from bundle_journal import Key, b64, consistency, inclusion, tree
from bundle_shapes import Bad, canonical
from bundle_vectors import BLAKE3_VECTORS, ED25519_VECTORS, RFC6962_LEAVES, RFC6962_ROOTS

TOOLS = pathlib.Path(__file__).resolve().parent


def hashed(data):
    return crypto.blake3(data).hex()


KEY = Key(1)
BUDGET = {"fuel": 1000, "memory": 65536, "wall_ms": 1000, "effects": 10, "bytes": 4096}
ENGINE = hashed(b"engine")
GRANTS = ["storage", "log", "model:rehearsal/*", "tool:mail.list", "http:example.com", "http:http://[::1]:8080",
          "net:10.0.0.0/8", "net:fd00::/8", "egress:preflight", "secret:git"]
TAPE = [
    {"effect": {"kind": "storage.get", "key": "k\u20ac\u000b\"\\"}, "outcome": {"done": {"entry": None}}},
    {"effect": {"kind": "log.write", "level": "info", "text": "hi\n"}, "outcome": {"done": "nothing"}},
    {"effect": {"kind": "clock.sleep", "nanos": "18446744073709551615"}, "outcome": {"failed": "no"}},
    {"effect": {"kind": "tools.call", "name": "x", "arguments": "{}"}, "outcome": {"refused": {
        "code": "not-granted", "layer": "declared", "reason": "r", "remedy": "m"}}},
    {"effect": {"kind": "secret.use", "slot": "s", "method": "GET", "url": "https://a/"},
     "outcome": {"done": {"handle": "lazaret-secret:s"}}},
    {"effect": {"kind": "environment.read"}, "outcome": {"done": {"environment": [["A", "b"]]}}},
]
for number, asked in enumerate(TAPE):
    asked["ruling"] = 0 if number != 3 else None
LIMITS = {}
CAPS = {"at_cap": "pause", "currency": "EUR", "per_action": None, "rails": ["card", "transfer"],
        "turn": LIMITS, "run": LIMITS, "day": dict(LIMITS, money=5000000), "total": LIMITS}


def node(pages):
    bitmap = sum(1 << place for place in pages).to_bytes(32, "little")
    return bitmap + b"".join(bytes.fromhex(pages[place]) for place in sorted(pages))


def keep(name, value):
    """Changes nothing."""
    return value


class Journal:
    """A small journal whose keeper may lie: `change` sees every named thing before it is hashed and signed."""

    def __init__(self, change=keep, key=KEY, kin=False):
        self.change, self.key, self.blobs, self.entries = change, key, {}, []
        self.component = self.put("component", b"\0asm, more or less")
        book = {"rulebook": self.put("rulebook", b"permit(principal, action, resource);")}
        judged = {"rulings": [{"under": book, "asked": [{"then": book}]}]}
        self.judged = self.put("judged", canonical(self.change("judged value", judged)).encode())
        page = {letter: self.put("page " + letter, letter.encode() * 4096) for letter in "abc"}
        first = self.image("0", 0, {0: page["a"], 3: page["b"]})
        second = self.image("1", 1, {0: page["c"], 3: page["b"]})
        self.add("genesis", {"genesis": {"format": "lazaret-journal/1", "key": key.text()}})
        self.add("admitted", {"component-admitted": {
            "component": self.component, "size": 17, "world": "durable", "engine": ENGINE}})
        made = self.add("created", self.created("mailbox", "durable", first))
        one = self.add("turn 1", self.turn("mailbox", 1, made, first, second))
        failed = {"ending": {"failed": {"bad-input": "what?"}}}
        self.add("turn 2", self.turn("mailbox", 2, one, second, second, **failed))
        made = self.add("created too", self.created("clerk", "stateless", None))
        self.add("clerk turn", self.turn("clerk", 1, made, None, None))
        self.add("removed", {"agent-removed": {"agent": "clerk"}})
        if kin:
            self.add_kin(one, first, second, page)

    def add_kin(self, one, first, second, page):
        """A fork of turn 1, set apart and woken, and a rollback to the beginning."""
        pages = {0: page["c"], 3: page["b"]}
        image, after = self.image("fork", 0, pages, "copy"), self.image("fork 1", 1, {0: page["a"]}, "copy")
        fork = dict(self.created("copy", "durable", image)["agent-created"], **{"from": "mailbox", "turn": 1, "entry": one})
        made = self.add("forked", {"agent-forked": fork})
        self.add("quarantined", {"agent-quarantined": {"agent": "copy", "by": "me", "reason": ""}})
        self.add("woken", {"agent-woken": {"agent": "copy", "by": "me"}})
        self.add("copy turn", self.turn("copy", 1, made, image, after))
        two, created = (hashed(canonical(self.entries[at]).encode()) for at in (4, 2))
        back = self.add("back", {"agent-rolled-back": {
            "agent": "mailbox", "by": "me", "to": 0, "entry": created, "image": first, "taken": 2, "previous": two}})
        self.add("turn 3", self.turn("mailbox", 3, back, first, second))

    def put(self, name, data):
        data = self.change(name, data)
        self.blobs[name] = data
        return hashed(data)

    def image(self, name, turn, pages, agent="mailbox"):
        nodes = [self.put("node " + name, node(pages))]
        image = {"agent": agent, "component": self.component, "engine": ENGINE, "turn": turn,
                 "memories": [{"size": 1, "nodes": nodes}], "globals": [["1", "18446744073709551615"], []]}
        return self.put("image " + name, canonical(self.change("image value " + name, image)).encode())

    def created(self, agent, world, image):
        return {"agent-created": {"agent": agent, "component": self.component, "world": world, "engine": ENGINE,
                                  "grants": GRANTS, "budget": BUDGET, "caps": CAPS, "image": image}}

    def turn(self, agent, turn, previous, before, after, ending=None):
        return {"turn": {
            "agent": agent, "turn": turn, "previous": previous, "component": self.component, "engine": ENGINE,
            "grants": GRANTS, "budget": BUDGET, "image_before": before,
            "input": {"sender": None, "content_type": "text/plain", "body": b64(b"hello")}, "tape": TAPE,
            "judged": self.judged,
            "ending": ending or {"replied": {"content_type": "text/plain", "body": ""}}, "fuel": 12,
            "image_after": after}}

    def add(self, name, body):
        prev = hashed(canonical(self.entries[-1]).encode()) if self.entries else "0" * 64
        entry = {"body": copy.deepcopy(body), "prev": prev, "seq": len(self.entries), "time": 1700000000000}
        self.entries.append(self.change(name, entry))
        return hashed(canonical(self.entries[-1]).encode())

    ASKED = ("component", "judged", "rulebook", "image 0", "node 0", "page a", "page b", "image 1", "node 1")

    KIN = ASKED + ("page c", "image fork", "image fork 1", "node fork 1")

    def lines(self, take=range(8), older=(3,), blobs=ASKED):
        leaves = [crypto.leaf_hash(canonical(entry).encode()) for entry in self.entries]
        lines = [{"bundle": "lazaret-bundle/1", "key": self.key.text()},
                 {"checkpoint": self.key.note(len(leaves), tree(leaves)), "consistency": []}]
        for size in older:
            proof = [b64(step) for step in consistency(size, leaves)]
            lines.append({"checkpoint": self.key.note(size, tree(leaves[:size])), "consistency": proof})
        for seq in take:
            proof = [b64(step) for step in inclusion(seq, leaves)]
            lines.append({"entry": self.entries[seq], "inclusion": proof})
        data = {self.blobs[name] for name in blobs}
        return lines + [{"blob": b64(blob)} for blob in sorted(data, key=crypto.blake3)]


def seal(lines):
    """The bundle of these lines, its end recomputed."""
    text = b"".join((line if isinstance(line, bytes) else canonical(line).encode()) + b"\n" for line in lines)
    return text + canonical({"end": hashed(text)}).encode() + b"\n"


@functools.lru_cache(maxsize=None)
def honest_lines():
    return Journal().lines()


@functools.lru_cache(maxsize=None)
def good():
    return seal(honest_lines())


def put(name, *path):
    """A keeper who writes something else at a place: the last of `path` is the value."""
    *path, last, value = path

    def change(found, what):
        if found == name:
            what = copy.deepcopy(what)
            place = what
            for step in path:
                place = place[step]
            place[last] = value
        return what
    return change


def blob(name, data):
    """A keeper who stores other bytes."""
    return lambda found, what: data if found == name else what


def lied(change, **how):
    return lambda: seal(Journal(change).lines(**how))


def kin_lied(change, take=range(14)):
    """A keeper who lies about forks and rollbacks."""
    return lambda: seal(Journal(change, kin=True).lines(take=take, blobs=Journal.KIN))


def both(*changes):
    """A keeper who lies about several things."""
    def change(found, what):
        for one in changes:
            what = one(found, what)
        return what
    return change


def sent(labels, name="turn 1"):
    """What turn 1 was asked, with labels."""
    return put(name, "body", "turn", "input", dict({"sender": None, "content_type": "text/plain", "body": b64(b"hello")}, labels=labels))


def fork_path(field, value):
    return put("forked", "body", "agent-forked", field, value)


def back_path(field, value):
    return put("back", "body", "agent-rolled-back", field, value)


def edited(edit):
    """A stranger who edits the lines and recomputes the end."""
    def make():
        lines = copy.deepcopy(honest_lines())
        edit(lines)
        return seal(lines)
    return make


def replace(index, old, new):
    def edit(lines):
        raw = canonical(lines[index])
        assert old in raw, (old, raw)
        lines[index] = raw.replace(old, new, 1).encode()
    return edited(edit)


def note(make):
    """A bundle whose newest checkpoint is made so; it gets the tree's size and root."""
    def edit(lines):
        leaves = [crypto.leaf_hash(canonical(line["entry"]).encode()) for line in lines if "entry" in line]
        lines[1]["checkpoint"] = make(len(leaves), tree(leaves))
    return edited(edit)


def signed(text):
    return "%s\n\u2014 %s %s\n" % (text, KEY.name, b64(KEY.id() + KEY.sign(text.encode())))


def with_extension(size, root):
    name, rest = KEY.note(size, root).split("\n\n")
    return name + "\nextension\n\n" + rest


def with_torsion_key():
    key = Key(1)
    key.public = b"\1" + bytes(31)
    key.sign = lambda message: key.public + bytes(32)
    return seal(Journal(key=key).lines())


def other_kind():
    data = b"\2" + KEY.public
    return "k+%s+%s" % (hashlib.sha256(b"k\n" + data).hexdigest()[:8], b64(data))


def after_removal(name, value):
    if name == "created too":
        value["body"] = {"agent-removed": {"agent": "mailbox"}}
    if name == "clerk turn":
        value["body"]["turn"].update(agent="mailbox", turn=3)
    return value


def unreduced_key():
    key = Key(1)
    key.public = (crypto.P + 3).to_bytes(32, "little")
    return seal(Journal(key=key).lines())


def turn_path(field, value, name="turn 1"):
    return put(name, "body", "turn", field, value)


FIRST_ENTRY, TURN_1, LAST_ENTRY, FIRST_BLOB = 3, 6, 10, 11
LONG_PROOF = [b64(bytes(32))] * 65

# Rule, what is done, and the bundle. Every rule of docs/bundle.md has at least one.
TAMPERINGS = (
    ("L2", "no end", lambda: good().rsplit(b"\n", 2)[0] + b"\n"),
    ("L2", "no last newline", lambda: good()[:-1]),
    ("L2", "something after the end", lambda: good() + b"\n"),
    ("L2", "no checkpoint", edited(lambda lines: [lines.pop(1), lines.pop(1)])),
    ("V3", "an entry among the blobs", edited(lambda lines: lines.append(lines[FIRST_ENTRY]))),
    ("V3", "a blob before the entries", edited(lambda lines: lines.insert(FIRST_ENTRY, lines[-1]))),
    ("L2", "a second header", edited(lambda lines: lines.insert(0, lines[0]))),
    ("V1", "an empty line", edited(lambda lines: lines.insert(2, b""))),
    ("L3", "another format", edited(lambda lines: lines[0].update(bundle="lazaret-bundle/2"))),
    ("L4", "another end", lambda: good()[:-4] + (b"1" if good()[-4:-3] == b"0" else b"0") + good()[-3:]),
    ("V1", "a space", replace(4, '":', '": ')),
    ("V1", "keys in another order", replace(TURN_1, '"effects":10,"fuel":1000', '"fuel":1000,"effects":10')),
    ("V1", "a needless escape", replace(TURN_1, "\u20ac", "\\u20ac")),
    ("V1", "upper-case escape", replace(TURN_1, "\\u000b", "\\u000B")),
    ("V1", "a lone surrogate", replace(TURN_1, "\u20ac", "\\ud800")),
    ("V1", "a key twice", replace(TURN_1, '"fuel":12,', '"fuel":12,"fuel":12,')),
    ("V1", "not UTF-8", edited(lambda lines: lines.__setitem__(0, b'{"bundle":"\xff"}'))),
    ("V1", "deep nesting", edited(lambda lines: lines.__setitem__(0, b"[" * 100000))),
    ("V2", "a fraction", replace(TURN_1, '"fuel":12,', '"fuel":12.0,')),
    ("V2", "a negative number", replace(TURN_1, '"fuel":12,', '"fuel":-12,')),
    ("V2", "NaN", replace(TURN_1, '"fuel":12,', '"fuel":NaN,')),
    ("V2", "2^53", lied(turn_path("fuel", 1 << 53))),
    ("V2", "more than 32 bits", lied(put("turn 1", "body", "turn", "budget", dict(BUDGET, effects=1 << 32)))),
    ("V3", "an unknown key", lied(put("turn 1", "body", "turn", "mood", "good"))),
    ("V3", "a missing key", lied(lambda name, v: v["body"]["turn"].pop("image_after") and v if name == "turn 1" else v)),
    ("V3", "an unknown cap", lied(put("created", "body", "agent-created", "caps", "day", "mood", 1))),
    ("V2", "a cap of null", lied(put("created", "body", "agent-created", "caps", "day", "fuel", None))),
    ("V3", "a string for a list", lied(turn_path("tape", ""))),
    ("V3", "a number for a string", lied(put("genesis", "body", "genesis", "format", 1))),
    ("V3", "a number for a truth", lied(put("turn 1", "body", "turn", "tape", 0, "outcome", {"done": {"existed": 1}}))),
    ("V4", "an unknown kind of effect", lied(put("turn 1", "body", "turn", "tape", 0, "effect", {"kind": "x"}))),
    ("V4", "an unknown kind of entry", lied(put("removed", "body", {"agent-moved": {"agent": "clerk"}}))),
    ("V4", "an unknown world", lied(put("admitted", "body", "component-admitted", "world", "Durable"))),
    ("V4", "nothing as an object", lied(put("turn 1", "body", "turn", "tape", 1, "outcome", {"done": {"nothing": None}}))),
    ("V5", "an upper-case digest", lied(put("turn 1", "body", "turn", "engine", ENGINE.upper()))),
    ("V6", "base64 without padding", lied(put("turn 1", "body", "turn", "input", "body", "aGVsbG8"))),
    ("V6", "base64 with stray bits", lied(put("turn 1", "body", "turn", "input", "body", "aGVsbG9="))),
    ("V7", "a plus sign", lied(put("turn 1", "body", "turn", "tape", 2, "effect", "nanos", "+1"))),
    ("V7", "2^64", lied(put("turn 1", "body", "turn", "tape", 2, "effect", "nanos", str(1 << 64)))),
    ("V8", "an agent's name in capitals", lied(put("removed", "body", "agent-removed", "agent", "Clerk"))),
    ("V9", "not a grant", lied(put("created", "body", "agent-created", "grants", ["fly"]))),
    ("V9", "grants out of order", lied(put("created", "body", "agent-created", "grants", ["log", "storage"]))),
    ("K1", "a key of another kind", edited(lambda lines: lines[0].update(key=other_kind()))),
    ("K1", "a wrong key hash", edited(lambda lines: lines[0].update(key="x" + KEY.text()))),
    ("K2", "a key that is not reduced", unreduced_key),
    ("K3", "an extension line", note(with_extension)),
    ("K3", "a signed extension line", note(lambda size, root: signed("%s\n%d\n%s\nmore\n" % (KEY.name, size, b64(root))))),
    ("K3", "a leading zero", note(lambda size, root: KEY.note("0%d" % size, root))),
    ("K3", "a second signature", note(lambda size, root: KEY.note(size, root) + KEY.note(size, root).split("\n\n")[1])),
    ("K4", "another log's checkpoint", note(lambda size, root: Key(1, "other").note(size, root))),
    ("K4", "a foreign key's signature", note(lambda size, root: Key(2).note(size, root))),
    ("K5", "another size", note(lambda size, root: KEY.note(size, root).replace("\n8\n", "\n9\n"))),
    ("K5", "a key of small order", with_torsion_key),
    ("K6", "checkpoints out of order", edited(lambda lines: lines.insert(2, lines[1]))),
    ("K7", "a proof for the newest", edited(lambda lines: lines[1].update(consistency=lines[2]["consistency"]))),
    ("K7", "another consistency proof", edited(lambda lines: lines[2]["consistency"].reverse())),
    ("K7", "a rewritten journal", edited(lambda lines: lines[2].update(checkpoint=KEY.note(3, bytes(32))))),
    ("K8", "a proof too long", edited(lambda lines: lines[TURN_1].update(inclusion=LONG_PROOF))),
    ("K8", "a short step", edited(lambda lines: lines[TURN_1].update(inclusion=["AAAA"]))),
    ("E2", "an entry changed", replace(TURN_1, '"fuel":12,', '"fuel":13,')),
    ("E2", "another entry's proof", edited(lambda l: l[TURN_1].update(inclusion=l[TURN_1 + 1]["inclusion"]))),
    ("E3", "entries in another order", edited(lambda lines: lines.insert(FIRST_ENTRY, lines.pop(FIRST_ENTRY + 1)))),
    ("E3", "an entry twice", edited(lambda lines: lines.insert(TURN_1, lines[TURN_1]))),
    ("E4", "a broken chain", lied(put("admitted", "prev", hashed(b"")))),
    ("E5", "no first entry", lied(keep, take=range(1, 8))),
    ("E5", "no entries", lied(keep, take=(), blobs=())),
    ("E5", "another key in the first entry", lied(put("genesis", "body", "genesis", "key", Key(2).text()))),
    ("E5", "another journal format", lied(put("genesis", "body", "genesis", "format", "lazaret-journal/2"))),
    ("E5", "a predecessor of the first entry", lied(put("genesis", "prev", hashed(b"")))),
    ("E6", "a second genesis", lied(put("removed", "body", {"genesis": {"format": "lazaret-journal/1", "key": KEY.text()}}))),
    ("T1", "created twice", lied(put("created too", "body", "agent-created", "agent", "mailbox"))),
    ("T2", "no creation", lied(keep, take=(0, 1, 3, 4))),
    ("T3", "other grants", lied(turn_path("grants", ["storage"]))),
    ("T3", "another budget", lied(turn_path("budget", dict(BUDGET, fuel=1001)))),
    ("T4", "turn 0", lied(turn_path("turn", 0))),
    ("T4", "turn 1 twice", lied(turn_path("turn", 1, "turn 2"))),
    ("T5", "another previous turn", lied(turn_path("previous", hashed(b""), "turn 2"))),
    ("T5", "another first image", lied(put("created", "body", "agent-created", "image", hashed(b"")))),
    ("T6", "a durable agent without image", lied(put("created", "body", "agent-created", "image", None))),
    ("T6", "a stateless turn with image", lied(turn_path("image_after", hashed(b""), "clerk turn"))),
    ("T7", "a failed turn that is kept", lied(turn_path("ending", {"stopped": {"cause": "fuel", "detail": ""}}))),
    ("T8", "a turn after the agent's removal", lied(after_removal)),
    ("T1", "a fork of a name that is taken", kin_lied(fork_path("agent", "mailbox"))),
    ("T2", "a rollback of nobody", kin_lied(back_path("agent", "nobody"))),
    ("T5", "a rollback that isn't chained", kin_lied(back_path("previous", hashed(b"")))),
    ("T5", "a rollback to what is to come", kin_lied(back_path("to", 3))),
    ("T5", "a rollback left out", kin_lied(keep, take=[at for at in range(14) if at != 12])),
    ("T6", "a rollback of a stateless agent", kin_lied(put("removed", "body", {"agent-rolled-back": {
        "agent": "clerk", "by": "", "to": 0, "entry": hashed(b""), "image": hashed(b""), "taken": 1,
        "previous": hashed(b"")}}))),
    ("T9", "a fork of another entry", kin_lied(fork_path("entry", hashed(b"")))),
    ("T9", "a fork of what is to come", kin_lied(fork_path("turn", 3))),
    ("T9", "a rollback to another image", kin_lied(back_path("image", hashed(b"")))),
    ("T10", "a fork of itself", kin_lied(fork_path("from", "copy"))),
    ("T10", "a fork with another budget", kin_lied(fork_path("budget", dict(BUDGET, fuel=1001)))),
    ("T12", "a label from nowhere", lied(put("judged value", "labels", ["untrusted"]))),
    ("T12", "a label that comes off", lied(both(put("judged value", "labels", []), sent(["private"])))),
    ("T12", "a label that comes off a fork", kin_lied(both(put("judged value", "labels", []), sent(["private"])),
                                                      take=(0, 2, 3, 8, 9, 10, 11))),
    ("T13", "a slot that isn't granted", lied(put("created", "body", "agent-created", "slots", [
        {"hosts": [], "purpose": "to push", "required": False, "slot": "got"}]))),
    ("T11", "a turn in quarantine", kin_lied(keep, take=[at for at in range(14) if at != 10])),
    ("B4", "a fork that doesn't begin", kin_lied(put("image value fork", "turn", 1))),
    ("B10", "a fork with other globals", kin_lied(put("image value fork", "globals", []))),
    ("B1", "blobs in another order", edited(lambda lines: lines.insert(FIRST_BLOB, lines.pop()))),
    ("B1", "a blob twice", edited(lambda lines: lines.insert(FIRST_BLOB, lines[FIRST_BLOB]))),
    ("B2", "a blob missing", edited(lambda lines: lines.pop())),
    ("B3", "a blob that nothing asks for", lied(keep, blobs=Journal.ASKED + ("page c",))),
    ("B4", "another agent's image", lied(put("image value 1", "agent", "clerk"))),
    ("B4", "an image from the future", lied(put("image value 0", "turn", 1))),
    ("B5", "nodes beyond the memory", lied(put("image value 1", "memories", [{"size": 0, "nodes": [hashed(b"")]}]))),
    ("B5", "a trailing null", lied(put("image value 1", "memories", [{"size": 64, "nodes": [None]}]))),
    ("B6", "a node of zeros", lied(blob("node 1", bytes(32)))),
    ("B6", "a node too long", lied(blob("node 0", node({0: hashed(b"")}) + b"\0"))),
    ("B7", "a short page", lied(blob("page a", b"a" * 4095))),
    ("B7", "a page of zeros", lied(blob("page a", bytes(4096)))),
    ("B8", "a page beyond the memory", lied(blob("node 1", node({16: hashed(b"")})))),
    ("B9", "labels that are none", lied(put("judged value", "labels", {"a": 1}))),
    ("B9", "labels in another order", lied(put("judged value", "labels", ["b", "a"]))),
    ("V3", "a message with no labels", lied(sent([]))),
    ("V3", "a message with a label twice", lied(sent(["a", "a"]))),
    ("B9", "rulings that are none", lied(put("judged value", "rulings", {"a": 1}))),
    ("V3", "an image with an unknown key", lied(put("image value 0", "mood", "good"))),
    ("V1", "an image in another spelling", lied(blob("image 0", b"{} "))),
)


class Vectors(unittest.TestCase):
    def test_blake3(self):
        for size, digest in BLAKE3_VECTORS.items():
            self.assertEqual(hashed(bytes(i % 251 for i in range(size))), digest, size)

    def test_blake3_of_more_chunks_than_lanes(self):
        before, crypto.MAX_LANES = crypto.MAX_LANES, 3
        try:
            self.test_blake3()
        finally:
            crypto.MAX_LANES = before

    def test_ed25519(self):
        for key, message, signature in ED25519_VECTORS:
            key, message, signature = map(bytes.fromhex, (key, message, signature))
            self.assertTrue(crypto.ed25519_verify(key, message, signature))
            self.assertFalse(crypto.ed25519_verify(key, message + b"x", signature))
            for bit in range(512):
                changed = bytearray(signature)
                changed[bit // 8] ^= 1 << bit % 8
                self.assertFalse(crypto.ed25519_verify(key, message, bytes(changed)), bit)

    def test_ed25519_is_strict(self):
        key, _, signature = (bytes.fromhex(part) for part in ED25519_VECTORS[0])
        s = int.from_bytes(signature[32:], "little")
        self.assertFalse(crypto.ed25519_verify(key, b"", signature[:32] + (s + crypto.L).to_bytes(32, "little")))
        # The identity and a point of order 2 as keys: S = 0 and R = identity would pass without the check.
        for weak in ((1).to_bytes(32, "little"), (crypto.P - 1).to_bytes(32, "little")):
            self.assertFalse(crypto.ed25519_verify(weak, b"", (1).to_bytes(32, "little") + bytes(32)))
        self.assertIsNone(crypto.decompress((crypto.P + 1).to_bytes(32, "little")))
        self.assertIsNone(crypto.decompress((1 | 1 << 255).to_bytes(32, "little")))
        self.assertIsNone(crypto.decompress((2).to_bytes(32, "little")))

    def test_merkle(self):
        leaves = [crypto.leaf_hash(bytes.fromhex(leaf)) for leaf in RFC6962_LEAVES]
        for size, root in enumerate(RFC6962_ROOTS):
            self.assertEqual(tree(leaves[:size]).hex(), root)

    def test_merkle_proofs(self):
        leaves = [crypto.leaf_hash(bytes([i])) for i in range(40)]
        for size in range(1, 41):
            root = tree(leaves[:size])
            for index in range(size):
                proof = inclusion(index, leaves[:size])
                self.assertTrue(crypto.verify_inclusion(leaves[index], index, size, proof, root))
                self.assertFalse(crypto.verify_inclusion(leaves[index], index, size, proof + [root], root))
                self.assertFalse(crypto.verify_inclusion(leaves[index], index + size, size, proof, root))
                self.assertFalse(crypto.verify_inclusion(leaves[index], index, 2 * size, proof, root))
                if proof:
                    self.assertFalse(crypto.verify_inclusion(leaves[index], index, size, proof[:-1], root))
                old = index + 1
                proof, old_root = consistency(old, leaves[:size]), tree(leaves[:old])
                self.assertTrue(crypto.verify_consistency(old, old_root, size, root, proof))
                self.assertFalse(crypto.verify_consistency(old, old_root, size, root, proof + [root]))
                self.assertFalse(crypto.verify_consistency(old, bytes(32), size, root, proof))
        self.assertFalse(crypto.verify_consistency(0, RFC6962_ROOTS[0], 1, root, []))


class Shapes(unittest.TestCase):
    def test_canonical(self):
        value = {"\ufb33": 1, "\U0001f600": 2, "a": "\x7f\u2028/\b\f\n\r\t\x1f\"\\", "": [None, True, False]}
        text = '{"":[null,true,false],"a":"\x7f\u2028/\\b\\f\\n\\r\\t\\u001f\\"\\\\","\U0001f600":2,"\ufb33":1}'
        self.assertEqual(canonical(value), text)
        self.assertEqual(shapes.read_json(text.encode()), value)

    def test_grants(self):
        lawful = ["storage", "tool:a", "tool:a/b_C.9-*", "model:x*", "http:a.b-c.d", "http:a:80", "http:http://a:443",
                  "http:[::]", "http:[1::8]:1", "http:http://[1:2:3:4:5:6:708:900]", "http:[::102:304]", "agent:a-1",
                  "http:[1:2:3:4:5:6:7:0]", "http:[abcd::]", "tool:" + "a" * 128 + "*", "http:127.0.0.1",
                  "http:1.example", "net:10.0.0.0/8", "net:0.0.0.0/0", "net:::1", "net:fd00::/8", "net:::ffff:127.0.0.1",
                  "egress:none", "egress:preflight", "secret:a.b-c_9"]
        unlawful = ["", "Storage", "storage:", "tool:", "tool:*", "tool:a b", "tool:a**", "model:" + "a" * 129, "http:",
                    "http:a:443", "http:http://a:80", "http:https://a", "http:A", "http:a.", "http:a..b", "http:a:0",
                    "http:a:080", "http:a:65536", "http:u@a", "http:a/", "http:[]", "http:[::1", "http:[1::2::3]",
                    "http:[:::]", "http:[1:2:3:4:5:6:7:8:9]", "http:[1:2:3:4:5:6::1.2.3.4]", "http:[::1.2.3.04]",
                    "http:[fe80::1%eth0]", "http:[12345::]", "http:[1:2:3:4:5:6:7:8::]", "agent:", "agent:A", "agent:1",
                    "agent:" + "a" * 65, "fly", "http:" + "a" * 64, "http:" + "a." * 127 + "a", "tool:\u0661",
                    "http:127.1", "http:0x7f.0.0.1", "http:a.1", "http:-a", "http:a-", "http:[ABCD::]", "http:[0:0::1]",
                    "http:[::1.2.3.4]", "net:", "net:10.0.0.1/8", "net:10.0.0.0/33", "net:10.0.0.0/08", "net:10.0.0.1/32",
                    "net:[::1]", "net:::ffff:7f00:1", "net:FD00::/8", "net:fe80::1%1", "egress:", "egress:strict",
                    "secret:", "secret:A", "secret:9", "secret:a b", "secret:" + "a" * 65, "trusted:", "trusted:A", "private:a/b",
                    "private:a:443"]
        for grant in lawful:
            self.assertIsNotNone(shapes.grant_order(grant), grant)
        for grant in unlawful:
            self.assertIsNone(shapes.grant_order(grant), grant)
        shapes.grants(["storage", "environment", "model:a", "model:a*", "model:b", "tool:a", "http:a", "http:b:1",
                       "http:b", "http:http://a", "agent:a", "net:9.0.0.0", "net:10.0.0.0/8", "net:10.0.0.0",
                       "net:::1", "egress:preflight", "egress:none", "secret:a", "trusted:a", "trusted:http://a",
                       "private:a", "private:b:1"])


class Bundles(unittest.TestCase):
    def test_good(self):
        said = check_bundle.check(good())
        self.assertEqual((said["turns"], said["checkpoints"], said["blobs"], said["journal"]), (3, 2, 9, 8))
        for take, blobs in (((0,), ()), ((0, 2, 4), ("component", "judged", "rulebook", "image 1", "node 1", "page b", "page c"))):
            check_bundle.check(lied(keep, take=take, blobs=blobs, older=())())

    def test_kin(self):
        said = check_bundle.check(kin_lied(keep)())
        self.assertEqual((said["turns"], said["unshown"]), (5, 0))
        alone = lied(keep)
        with_fork = Journal(kin=True).lines(take=(0, 8, 11), older=(), blobs=(
            "component", "judged", "rulebook", "image fork", "node fork", "page b", "page c", "image fork 1", "node fork 1"))
        self.assertEqual(check_bundle.check(seal(with_fork))["unshown"], 1)
        self.assertEqual(check_bundle.check(alone())["unshown"], 0)

    def test_labels(self):
        # Somebody begins to count; what a message brings, and a rollback takes away.
        check_bundle.check(lied(put("judged value", "labels", []))())
        check_bundle.check(lied(sent(["private", "untrusted"]))())
        record = {"ending": {"replied": {}}, "input": {}, "grants": [], "tape": []}
        fetch = {"effect": {"kind": "http.fetch", "url": "http://a.example:81/x?y"}, "outcome": {"done": {}}}
        for grants, labels in (([], {"untrusted"}), (["trusted:http://a.example:81"], set()),
                               (["trusted:a.example:81", "private:http://a.example:81"], {"private", "untrusted"})):
            turn = dict(record, grants=grants, tape=[fetch])
            self.assertEqual(check_bundle.seen_after(set(), turn), labels)
            self.assertIsNone(check_bundle.seen_after(None, turn))
            self.assertEqual(check_bundle.seen_after({"x"}, dict(turn, ending={"failed": {}})), {"x"})
            self.assertEqual(check_bundle.seen_after({"x"}, dict(turn, tape=[dict(fetch, outcome={"failed": ""})])), {"x"})

    def test_tamperings(self):
        for rule, what, make in TAMPERINGS:
            with self.subTest(what):
                with self.assertRaises(Bad) as caught:
                    check_bundle.check(make())
                self.assertEqual(caught.exception.rule, rule, str(caught.exception))

    def test_sizes(self):
        for name, rule in (("MAX_BUNDLE", "L1"), ("MAX_ENTRY", "E1")):
            before = getattr(check_bundle, name)
            setattr(check_bundle, name, 100)
            try:
                with self.assertRaises(Bad) as caught:
                    check_bundle.check(good())
                self.assertEqual(caught.exception.rule, rule)
            finally:
                setattr(check_bundle, name, before)

    def test_every_rule_is_tested(self):
        page = (TOOLS.parent / "docs" / "bundle.md").read_text(encoding="utf-8")
        rules = set(re.findall(r"\*\*([LVKETB][0-9]+)\*\*", page))
        self.assertTrue(rules)
        self.assertEqual(rules, {rule for rule, _, _ in TAMPERINGS} | {"L1", "E1"})

    def test_every_bit(self):
        data = good()
        step = 1 if os.environ.get("LAZARET_EVERY_BIT") else 499
        for bit in range(0, 8 * len(data), step):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            with self.assertRaises(Bad, msg="bit %d" % bit):
                check_bundle.check(bytes(changed))


class Command(unittest.TestCase):
    def run_on(self, *arguments):
        command = [sys.executable, str(TOOLS / "check_bundle.py"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines(), done.stderr

    def test_command(self):
        with tempfile.TemporaryDirectory() as place:
            ok, bad, none = (os.path.join(place, name) for name in ("ok", "bad", "none"))
            pathlib.Path(ok).write_bytes(good())
            pathlib.Path(bad).write_bytes(good()[:-1])
            code, said, _ = self.run_on(ok)
            self.assertEqual((code, said), (0, [
                "OK  3 turns, 2 checkpoints, 9 blobs, journal of 8 entries, key " + KEY.text()]))
            code, said, _ = self.run_on("--pure", bad)
            self.assertEqual((code, said), (1, ["BAD line 21: the bundle is cut short [L2]"]))
            code, said, _ = self.run_on(ok, bad)
            self.assertEqual((code, [line.split()[1] for line in said]), (1, ["OK", "BAD"]))
            code, said, _ = self.run_on("--json", ok, bad, none)
            self.assertEqual((code, [json.loads(line)["verdict"] for line in said]), (2, ["ok", "bad", "unread"]))
            self.assertEqual(json.loads(said[1])["rule"], "L2")
        self.assertEqual(self.run_on()[0], 2)


if __name__ == "__main__":
    unittest.main()
