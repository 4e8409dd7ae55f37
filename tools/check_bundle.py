#!/usr/bin/env python3
"""Checks Lazaret evidence bundles: everything in docs/bundle.md but re-execution.

This is the second implementation, written from that page: standard library only, nothing shared with the Rust one.
The names in brackets (L1, V3, T5, ...) are the page's rules. If the `blake3` module is installed it is used for
speed; `--pure` forces the implementation in bundle_crypto.py.

Exit codes: 0 all good, 1 one is bad, 2 one can't be read or the command line is wrong.
"""

import argparse
import hashlib
import json
import re
import sys

import bundle_crypto as crypto
from bundle_shapes import (BLOB_LINE, CHECKPOINT_LINE, DECIMAL, END_LINE, ENTRY_LINE, HEADER_LINE, IMAGE, Bad, canonical,
                           labels, read_json, unbase64)

FORMAT = "lazaret-bundle/1"
JOURNAL_FORMAT = "lazaret-journal/1"
MAX_BUNDLE = 1 << 30
MAX_ENTRY = 128 << 20
MAX_PROOF = 64
PAGE = 4096
NODE_PAGES = 256
PAGES_PER_SIZE = 16
NO_ENTRY = "0" * 64
# Unicode's White_Space; Python's own idea of a space is wider.
SPACES = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
                   "\u2028\u2029\u202f\u205f\u3000")


class Lines:
    """The bundle's lines, one after the other."""

    def __init__(self, data):
        self.data, self.at, self.number = data, 0, 0

    def starts(self, start):
        return self.data.startswith(start, self.at)

    def read(self, shape):
        """The next line and what it says."""
        self.number += 1
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise Bad("L2", "the bundle is cut short")
        line, self.at = self.data[self.at:end], end + 1
        value = read_json(line)
        shape(value)
        return line, value


class Verifier:
    """A C2SP verifier key: `name+hash+base64`."""

    def __init__(self, text):
        parts = text.split("+", 2)
        data = unbase64(parts[2]) if len(parts) == 3 else None
        if data is None or len(data) != 33 or data[0] != 1:
            raise Bad("K1", "the key is not name+hash+base64 of an Ed25519 key")
        self.name, self.key = parts[0], data[1:]
        self.hash = hashlib.sha256(self.name.encode() + b"\n" + data).digest()[:4]
        if not self.name or SPACES.intersection(self.name) or parts[1] != self.hash.hex():
            raise Bad("K1", "the key's name is empty or has spaces, or its hash is wrong")
        if crypto.decompress(self.key) is None:
            raise Bad("K2", "the key is not a point of the curve in its one spelling")

    def check(self, note):
        """Size and root of a signed checkpoint."""
        lines = note.split("\n")
        if len(lines) != 6 or lines[3] or lines[5]:
            raise Bad("K3", "the checkpoint is not three lines, a blank one and one signature")
        name, size, root = lines[0], lines[1], unbase64(lines[2])
        if not DECIMAL.match(size) or int(size) >= 1 << 64 or root is None or len(root) != 32:
            raise Bad("K3", "the checkpoint's size or root is malformed")
        start = "\u2014 %s " % self.name
        if name != self.name or not lines[4].startswith(start):
            raise Bad("K4", "the checkpoint is of another log")
        signature = unbase64(lines[4][len(start):])
        if signature is None or len(signature) != 68 or signature[:4] != self.hash:
            raise Bad("K4", "the signature is malformed or of another key")
        signed = "".join(line + "\n" for line in lines[:3]).encode()
        if not crypto.ed25519_verify(self.key, signed, signature[4:]):
            raise Bad("K5", "the checkpoint's signature is wrong")
        return int(size), root


def read_proof(steps):
    proof = [unbase64(step) for step in steps]
    if len(proof) > MAX_PROOF or any(len(step) != 32 for step in proof):
        raise Bad("K8", "the proof is too long or has a step that is not 32 bytes")
    return proof


def read_checkpoints(lines, verifier):
    """All checkpoints, newest first."""
    found = []
    while lines.starts(b'{"checkpoint":'):
        _, value = lines.read(CHECKPOINT_LINE)
        size, root = verifier.check(value["checkpoint"])
        proof = read_proof(value["consistency"])
        if size >= (found[-1][0] if found else (1 << 64) - 1):
            raise Bad("K6", "checkpoints stand from the newest to the oldest")
        if found:
            if not crypto.verify_consistency(size, root, found[0][0], found[0][1], proof):
                raise Bad("K7", "the newest checkpoint doesn't extend this one: the journal was rewritten")
        elif proof:
            raise Bad("K7", "the newest checkpoint needs no consistency proof")
        found.append((size, root))
    if not found:
        lines.number += 1
        raise Bad("L2", "no checkpoint")
    return found


def read_entries(lines, size, root, blake3):
    """All entries, each with its hash."""
    found = []
    while lines.starts(b'{"entry":'):
        line, value = lines.read(ENTRY_LINE)
        entry = value["entry"]
        tail = len(',"inclusion":}') + len(canonical(value["inclusion"]))
        data = line[len('{"entry":'):-tail]
        if len(data) > MAX_ENTRY:
            raise Bad("E1", "an entry of %d bytes; the most is %d" % (len(data), MAX_ENTRY))
        if not crypto.verify_inclusion(crypto.leaf_hash(data), entry["seq"], size, read_proof(value["inclusion"]), root):
            raise Bad("E2", "entry %d is not in the signed journal" % entry["seq"])
        if found:
            before, hashed = found[-1]
            if before["seq"] >= entry["seq"]:
                raise Bad("E3", "entries stand in the journal's order")
            if before["seq"] + 1 == entry["seq"] and hashed != entry["prev"]:
                raise Bad("E4", "entry %d doesn't follow entry %d" % (entry["seq"], before["seq"]))
        found.append((entry, blake3(data).hex()))
    return found


def read_blobs(lines, blake3):
    """All blobs by digest."""
    blobs, last = {}, ""
    while lines.starts(b'{"blob":'):
        _, value = lines.read(BLOB_LINE)
        data = unbase64(value["blob"])
        name = blake3(data).hex()
        if name <= last:
            raise Bad("B1", "blobs stand in the order of their digests")
        blobs[name] = data
        last = name
    return blobs


def check_entries(key, entries):
    """The journal's beginning, and each agent's life. Returns the entries' bodies and which forks can be compared."""
    first = entries[0][0] if entries else None
    if first is None or first["seq"] != 0 or "genesis" not in first["body"]:
        raise Bad("E5", "the journal's first entry is missing")
    genesis = first["body"]["genesis"]
    if genesis != {"format": JOURNAL_FORMAT, "key": key} or first["prev"] != NO_ENTRY:
        raise Bad("E5", "the journal's first entry has another key, another format or a predecessor")
    lives = Lives()
    for entry, hashed in entries[1:]:
        kind, body = next(iter(entry["body"].items()))
        try:
            if kind == "genesis":
                raise Bad("E6", "a second beginning")
            lives.follow(kind, body, hashed)
        except Bad as bad:
            bad.path.insert(0, "entry %d" % entry["seq"])
            raise
    for (agent, turn), shown in lives.named:
        if not shown and (agent, turn) in lives.left:
            raise Bad("T9", "turn %d of `%s` comes after the entry that goes back to it" % (turn, agent))
    return lives


class Lives:
    """Each agent's life, followed through the entries of a bundle."""

    def __init__(self):
        self.agents, self.turns, self.forks, self.seen = {}, [], [], []
        # What an agent was like after a turn (0: at first): the entry's hash, and the image.
        self.left = {}
        # Agent and turn that a fork or rollback names, and whether the bundle has that turn's entry before it.
        self.named = []

    def follow(self, kind, body, hashed):
        if kind in ("agent-created", "agent-forked", "agent-rolled-back", "turn"):
            self.seen.append((kind, body))
        known = self.agents.get(body.get("agent"))
        if kind in ("agent-created", "agent-forked"):
            self.born(body, hashed)
            if kind == "agent-forked":
                self.forked(body)
        elif kind == "agent-rolled-back":
            self.rolled_back(known, body, hashed)
        elif kind == "agent-removed" and known:
            known["removed"], known["quarantined"] = True, False
        elif kind in ("agent-quarantined", "agent-woken") and known:
            known["quarantined"] = kind == "agent-quarantined"
        elif kind == "turn":
            if known is None:
                raise Bad("T2", "its agent's creation is missing")
            check_turn(known, body)
            known.update(taken=body["turn"], hash=hashed, image=body["image_after"])
            self.left[body["agent"], body["turn"]] = (hashed, body["image_after"])
            self.turns.append(body)

    def born(self, created, hashed):
        if created["agent"] in self.agents:
            raise Bad("T1", "agent `%s` is created twice" % created["agent"])
        if (created["image"] is not None) != (created["world"] == "durable"):
            raise Bad("T6", "a durable agent has an image, another has none")
        if any("secret:" + declared["slot"] not in created["grants"] for declared in created.get("slots", ())):
            raise Bad("T13", "it declares a slot and isn't granted it")
        self.agents[created["agent"]] = {"created": created, "taken": 0, "hash": hashed, "image": created["image"],
                                         "removed": False, "quarantined": False}
        self.left[created["agent"], 0] = (hashed, created["image"])

    def forked(self, fork):
        source = self.agents.get(fork["from"])
        if fork["from"] == fork["agent"]:
            raise Bad("T10", "agent `%s` is made from itself" % fork["agent"])
        if source and any(fork.get(key) != source["created"].get(key) for key in TERMS + ("world", "slots")):
            raise Bad("T10", "the fork's component, world, engine, grants, slots or budget are not its source's")
        left = self.left.get((fork["from"], fork["turn"]))
        if left and left[0] != fork["entry"]:
            raise Bad("T9", "turn %d of `%s` is another entry than the one that it names" % (fork["turn"], fork["from"]))
        self.named.append(((fork["from"], fork["turn"]), left is not None))
        self.forks.append((fork, left[1] if left else None))

    def rolled_back(self, known, back, hashed):
        if known is None:
            raise Bad("T2", "its agent's creation is missing")
        if known["removed"]:
            raise Bad("T8", "its agent was removed before it")
        if known["created"]["world"] != "durable":
            raise Bad("T6", "a stateless agent has no image to go back to")
        if (back["to"] > back["taken"] or back["taken"] < known["taken"]
                or (back["taken"] == known["taken"] and back["previous"] != known["hash"])):
            raise Bad("T5", "the rollback to turn %d doesn't follow the agent's turn before it" % back["to"])
        left = self.left.get((back["agent"], back["to"]))
        if left and left != (back["entry"], back["image"]):
            raise Bad("T9", "turn %d of `%s` left another image than the one it names" % (back["to"], back["agent"]))
        known.update(taken=back["taken"], hash=hashed, image=back["image"])
        self.named.append(((back["agent"], back["to"]), left is not None))


TERMS = ("component", "engine", "grants", "budget")


def check_turn(known, turn):
    created = known["created"]
    if any(turn[key] != created[key] for key in TERMS):
        raise Bad("T3", "the turn's component, engine, grants or budget are not the agent's")
    if known["removed"]:
        raise Bad("T8", "its agent was removed before it")
    if known["quarantined"]:
        raise Bad("T11", "its agent was quarantined before it, and not woken")
    durable = created["world"] == "durable"
    if (turn["image_before"] is not None) != durable or (turn["image_after"] is not None) != durable:
        raise Bad("T6", "a durable agent's turn has images, another has none")
    if "replied" not in turn["ending"] and turn["image_after"] != turn["image_before"]:
        raise Bad("T7", "the turn didn't end well, and yet its image is kept")
    if turn["turn"] <= known["taken"]:
        raise Bad("T4", "turn %d doesn't come after turn %d" % (turn["turn"], known["taken"]))
    if turn["turn"] == known["taken"] + 1:
        if turn["previous"] != known["hash"] or turn["image_before"] != known["image"]:
            raise Bad("T5", "turn %d doesn't follow the agent's turn before it" % turn["turn"])


def image_depths(lives):
    """Every image that the entries ask for, and whether its pages must be there."""
    depths, last = {}, {}
    for turn in lives.turns:
        before, after = turn["image_before"], turn["image_after"]
        if before is not None:
            depths[before] = depths.get(before, False) or before != last.get(turn["agent"])
        if after is not None:
            depths.setdefault(after, False)
            last[turn["agent"]] = after
    for fork, source in lives.forks:
        for name in (fork["image"], source):
            if fork["image"] is not None and name is not None:
                depths.setdefault(name, False)
    return depths


class Blobs:
    """The blobs, read as what they are asked for as, each once."""

    def __init__(self, blobs):
        self.blobs, self.nodes, self.pages = blobs, {}, set()

    def get(self, name):
        if name not in self.blobs:
            raise Bad("B2", "blob %s is missing" % name)
        return self.blobs[name]

    def image(self, name):
        image = read_json(self.get(name))
        IMAGE(image)
        for memory in image["memories"]:
            nodes, size = memory["nodes"], memory["size"]
            most = -(-size * PAGES_PER_SIZE // NODE_PAGES)
            if size > 65536 or len(nodes) > most or (nodes and nodes[-1] is None):
                raise Bad("B5", "a memory's nodes don't fit its size")
        return image

    def rulebooks(self, name):
        """The rulebooks by which a turn's asks were judged. Judging them again is the binary's work."""
        try:
            rulings = read_json(self.get(name))["rulings"]
            moments = [ruling["under"] for ruling in rulings]
            moments += [asked["then"] for ruling in rulings for asked in ruling["asked"]]
            return {moment["rulebook"] for moment in moments}
        except (KeyError, TypeError):
            raise Bad("B9", "judged %s is malformed" % name) from None

    def labels(self, name):
        """What the agent had seen before the turn that was judged so; None if nobody counted then."""
        judged = read_json(self.get(name))
        if "labels" not in judged:
            return None
        try:
            labels(judged["labels"])
        except Bad:
            raise Bad("B9", "judged %s: its labels are malformed" % name) from None
        return set(judged["labels"])

    def node(self, name):
        """Places and names of a node's pages."""
        if name not in self.nodes:
            data = self.get(name)
            places = [i for i in range(NODE_PAGES) if len(data) >= 32 and data[i // 8] >> (i % 8) & 1]
            if not places or len(data) != 32 + 32 * len(places):
                raise Bad("B6", "node %s is malformed" % name)
            names = (data[at:at + 32].hex() for at in range(32, len(data), 32))
            self.nodes[name] = list(zip(places, names))
        return self.nodes[name]

    def page(self, name):
        if name not in self.pages:
            page = self.get(name)
            if len(page) != PAGE or not any(page):
                raise Bad("B7", "page %s has another size or is all zeros" % name)
            self.pages.add(name)


def check_image(blobs, image, whole):
    """The nodes of an image, and its pages if they must be there. Returns the names of both."""
    asked = set()
    for memory in image["memories"]:
        for at, name in enumerate(memory["nodes"]):
            if name is None:
                continue
            asked.add(name)
            for place, page in blobs.node(name):
                if at * NODE_PAGES + place >= memory["size"] * PAGES_PER_SIZE:
                    raise Bad("B8", "a page lies beyond its memory's end")
                if whole:
                    asked.add(page)
                    blobs.page(page)
    return asked


def check_forks(forks, images):
    """A fork's image is its own before its first turn, and otherwise the one that it was made from."""
    for fork, source in forks:
        image = images.get(fork["image"])
        if image is None:
            continue
        if any(image[key] != fork[key] for key in ("agent", "component", "engine")) or image["turn"] != 0:
            raise Bad("B4", "image %s is bound to another agent, component, engine or turn" % fork["image"])
        if source is not None and image != dict(images[source], agent=fork["agent"], turn=0):
            raise Bad("B10", "the fork's image is not what turn %d of `%s` left" % (fork["turn"], fork["from"]))


def origin(url):
    """Where a URL leads, spelled as grants spell it. Whether the rest of it is one is not looked at."""
    scheme, _, rest = url.partition("://")
    place = re.split("[/?]", rest, maxsplit=1)[0]
    return {"https": place, "http": "http://" + place}.get(scheme, "")


def seen_after(before, turn):
    """What an agent has seen after a turn (T12)."""
    if before is None or "replied" not in turn["ending"]:
        return before
    after = before | set(turn["input"].get("labels", ()))
    for asked in turn["tape"]:
        if asked["effect"]["kind"] == "http.fetch" and "done" in asked["outcome"]:
            place = origin(asked["effect"]["url"])
            after |= set() if "trusted:" + place in turn["grants"] else {"untrusted"}
            after |= {"private"} if "private:" + place in turn["grants"] else set()
    return after


def check_seen(lives, reader):
    """No label comes off between turns. None is what nobody has counted; what isn't in `left` the bundle doesn't tell."""
    now, left = {}, {}
    for kind, body in lives.seen:
        who = body["agent"]
        if kind == "agent-rolled-back":
            now[who] = (body["taken"], (who, body["to"]))
            continue
        number = body["turn"] if kind == "turn" else 0
        if kind == "agent-created":
            left[who, 0] = None
        elif kind == "agent-forked" and (body["from"], body["turn"]) in left:
            left[who, 0] = left[body["from"], body["turn"]]
        elif kind == "turn":
            before = reader.labels(body["judged"])
            taken, state = now[who]
            if taken + 1 == number and state in left:
                had = left[state]
                if before != had and not (had is None and before == set()):
                    raise Bad("T12", "turn %d begins with other labels than the agent had" % number)
            left[who, number] = seen_after(before, body)
        now[who] = (number, (who, number))


def check_blobs(lives, blobs):
    """Every blob that is asked for is there and is what it has to be; there are no others."""
    turns = lives.turns
    asked = {turn["component"] for turn in turns}
    reader, images = Blobs(blobs), {}
    for turn in turns:
        asked |= {turn["judged"]} | reader.rulebooks(turn["judged"])
    for name, whole in sorted(image_depths(lives).items()):
        try:
            images[name] = reader.image(name)
            asked.add(name)
            asked |= check_image(reader, images[name], whole)
        except Bad as bad:
            bad.path.insert(0, "image " + name)
            raise
    for name in sorted(asked):
        reader.get(name)
    for name in blobs:
        if name not in asked:
            raise Bad("B3", "nothing asks for blob %s" % name)
    for turn in turns:
        for name, latest in ((turn["image_before"], turn["turn"] - 1), (turn["image_after"], turn["turn"])):
            image = images.get(name)
            if image and (any(image[key] != turn[key] for key in ("agent", "component", "engine"))
                          or image["turn"] > latest):
                raise Bad("B4", "image %s is bound to another agent, component, engine or turn" % name)
    check_forks(lives.forks, images)
    check_seen(lives, reader)


def check(data, blake3=crypto.blake3):
    """Checks a bundle; returns what it holds or raises Bad."""
    if len(data) > MAX_BUNDLE:
        raise Bad("L1", "%d bytes; the most is %d" % (len(data), MAX_BUNDLE))
    lines = Lines(data)
    try:
        _, header = lines.read(HEADER_LINE)
        if header["bundle"] != FORMAT:
            raise Bad("L3", "`%s` is not `%s`" % (header["bundle"][:80], FORMAT))
        checkpoints = read_checkpoints(lines, Verifier(header["key"]))
        entries = read_entries(lines, *checkpoints[0], blake3)
        blobs = read_blobs(lines, blake3)
        covered = lines.at
        _, end = lines.read(END_LINE)
        if end["end"] != blake3(data[:covered]).hex():
            raise Bad("L4", "the bundle's own digest doesn't match: it was changed or damaged")
        if lines.at != len(data):
            raise Bad("L2", "something follows the end")
    except Bad as bad:
        bad.line = lines.number
        raise
    lives = check_entries(header["key"], entries)
    check_blobs(lives, blobs)
    return {"turns": len(lives.turns), "unshown": sum(not shown for _, shown in lives.named), "checkpoints": len(checkpoints), "blobs": len(blobs), "entries": len(entries),
            "journal": checkpoints[0][0], "key": header["key"]}


def judge(path, blake3):
    """What is to be said of one file, and the exit code."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BUNDLE + 1)
    except OSError as why:
        return {"path": path, "verdict": "unread", "why": why.strerror or str(why)}, 2
    try:
        return dict(check(data, blake3), path=path, verdict="ok"), 0
    except Bad as bad:
        return {"path": path, "verdict": "bad", "rule": bad.rule, "line": bad.line, "why": str(bad)}, 1


def plural(count, noun):
    return "%d %s" % (count, noun if count == 1 else noun + "s")


def in_words(said):
    if said["verdict"] != "ok":
        return "%-4s%s" % ({"bad": "BAD", "unread": "???"}[said["verdict"]], said["why"])
    counts = ", ".join(plural(said[noun + "s"], noun) for noun in ("turn", "checkpoint", "blob"))
    entries = "journal of %d entries" % said["journal"]
    return "OK  %s, %s, key %s" % (counts, entries, said["key"])


def main():
    parser = argparse.ArgumentParser(description="Checks Lazaret evidence bundles, all but re-execution.")
    parser.add_argument("bundles", nargs="+", metavar="BUNDLE", help="a bundle file; one line is printed for each")
    parser.add_argument("--json", action="store_true", help="print one JSON object per bundle")
    parser.add_argument("--pure", action="store_true", help="don't use the blake3 module even if it is there")
    options = parser.parse_args()
    blake3 = crypto.blake3 if options.pure else crypto.fastest_blake3()
    sys.stdout.reconfigure(errors="backslashreplace")
    worst = 0
    for path in options.bundles:
        said, code = judge(path, blake3)
        worst = max(worst, code)
        prefix = "%s: " % path if len(options.bundles) > 1 else ""
        line = json.dumps(said) if options.json else prefix + in_words(said)
        # A name in a hostile bundle must not be able to drive the terminal.
        print("".join(c if c.isprintable() else "\\u%04x" % ord(c) for c in line), flush=True)
    return worst


if __name__ == "__main__":
    sys.exit(main())
