"""What may stand in a bundle: canonical JSON and the exact shape of every value. docs/bundle.md is the specification."""

import base64
import binascii
import ipaddress
import json
import re

MAX_WHOLE = (1 << 53) - 1
MAX_RAILS = 64
MAX_HOSTS = 64
MAX_SLOTS = 16
MAX_SLOT_HOSTS = 8
MAX_PURPOSE = 200


class Bad(Exception):
    """A rule that a bundle breaks."""

    def __init__(self, rule, why):
        super().__init__(why)
        self.rule, self.why, self.path, self.line = rule, why, [], None

    def __str__(self):
        at = "line %d: " % self.line if self.line else ""
        path = "".join(self.path).lstrip(".")
        return "%s%s%s [%s]" % (at, path + ": " if path else "", self.why, self.rule)


# --- Canonical JSON (RFC 8785), read and written.

ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
TO_ESCAPE = re.compile('["\\\\\x00-\x1f]')


def _escape(match):
    return ESCAPES.get(match.group()) or "\\u%04x" % ord(match.group())


def canonical(value):
    """The canonical text of a value."""
    if isinstance(value, str):
        return '"%s"' % TO_ESCAPE.sub(_escape, value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[%s]" % ",".join(map(canonical, value))
    keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
    return "{%s}" % ",".join("%s:%s" % (canonical(key), canonical(value[key])) for key in keys)


def _whole(text):
    if text.startswith("-") or len(text) > 16 or int(text) > MAX_WHOLE:
        raise Bad("V2", "%s is not a whole number from 0 to %d" % (text[:40], MAX_WHOLE))
    return int(text)


def _no_number(text):
    raise Bad("V2", "`%s` is not a whole number" % text[:40])


def _pairs(pairs):
    value = dict(pairs)
    if len(value) != len(pairs):
        raise Bad("V1", "a key stands twice")
    return value


def read_json(data):
    """Reads canonical JSON; anything else is refused."""
    try:
        text = data.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_pairs, parse_int=_whole, parse_float=_no_number,
                           parse_constant=_no_number)
        same = canonical(value) == text
    except (ValueError, RecursionError) as why:
        raise Bad("V1", "not JSON: %s" % str(why)[:200]) from None
    if not same:
        raise Bad("V1", "JSON, but not in canonical form")
    return value


# --- Shapes: each takes a value and raises Bad unless it has exactly that shape.


def text(value):
    if not isinstance(value, str):
        raise Bad("V3", "must be a string")


def flag(value):
    if not isinstance(value, bool):
        raise Bad("V3", "must be true or false")


def number(most=MAX_WHOLE):
    def shape(value):
        if isinstance(value, bool) or not isinstance(value, int) or value > most:
            raise Bad("V2", "must be a whole number up to %d" % most)
    return shape


def choice(*names):
    def shape(value):
        if not isinstance(value, str) or value not in names:
            raise Bad("V4", "must be one of: " + ", ".join(names))
    return shape


def nullable(inner):
    return lambda value: None if value is None else inner(value)


def under(step, inner, value):
    try:
        inner(value)
    except Bad as bad:
        bad.path.insert(0, step)
        raise


def items(inner):
    def shape(value):
        if not isinstance(value, list):
            raise Bad("V3", "must be a list")
        for index, item in enumerate(value):
            under("[%d]" % index, inner, item)
    return shape


def record(fields):
    def shape(value):
        if not isinstance(value, dict):
            raise Bad("V3", "must be an object")
        if value.keys() != fields.keys():
            odd = sorted(set(fields).symmetric_difference(value))
            raise Bad("V3", "missing or unknown: " + ", ".join(odd)[:200])
        for key, inner in fields.items():
            under("." + key, inner, value[key])
    return shape


def some(fields):
    """Any of these, each at most once."""
    def shape(value):
        if not isinstance(value, dict) or not value.keys() <= fields.keys():
            raise Bad("V3", "must be an object of some of: " + ", ".join(fields))
        for key in value:
            under("." + key, fields[key], value[key])
    return shape


def tagged(variants, units=()):
    """One key that says which, and what it holds; `units` hold nothing and are written as a bare string."""
    def shape(value):
        if isinstance(value, str) and value in units:
            return
        if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in variants:
            raise Bad("V4", "must be one of: " + ", ".join([*variants, *units]))
        name = next(iter(value))
        under("." + name, variants[name], value[name])
    return shape


def pair(value):
    if not isinstance(value, list) or len(value) != 2:
        raise Bad("V3", "must be a list of two")
    text(value[0])
    text(value[1])


HEX = re.compile(r"[0-9a-f]{64}\Z")
DECIMAL = re.compile(r"(0|[1-9][0-9]{0,19})\Z")
AGENT = re.compile(r"[a-z][a-z0-9-]{0,63}\Z")
SLOT = re.compile(r"[a-z][a-z0-9._-]{0,63}\Z")
PATTERN = re.compile(r"([A-Za-z0-9._/-]{1,128})(\*?)\Z")


def digest(value):
    if not isinstance(value, str) or not HEX.match(value):
        raise Bad("V5", "must be 64 lower-case hex digits")


def unbase64(value):
    """The bytes that padded standard base64 spells, or None if this is no or another spelling."""
    try:
        data = base64.b64decode(value.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return None
    return data if base64.b64encode(data).decode("ascii") == value else None


def binary(value):
    if not isinstance(value, str) or unbase64(value) is None:
        raise Bad("V6", "must be padded standard base64")


def exact(value):
    if not isinstance(value, str) or not DECIMAL.match(value) or int(value) >= 1 << 64:
        raise Bad("V7", "must be a string of decimal digits below 2^64")


def agent(value):
    if not isinstance(value, str) or not AGENT.match(value):
        raise Bad("V8", "must be an agent's name")


def address(text):
    """(version, bits) of an IP address without a zone, or None."""
    try:
        found = ipaddress.ip_address(text) if "%" not in text else None
    except ValueError:
        return None
    return (found.version, int(found)) if found else None


def spelled6(bits, mapped):
    """An IPv6 address as RFC 5952 writes it; IPv4-mapped ones with dots only if `mapped`."""
    if mapped and bits >> 32 == 0xffff:
        return "::ffff:%s" % ipaddress.IPv4Address(bits & 0xffffffff)
    groups = ["%x" % (bits >> shift & 0xffff) for shift in range(112, -16, -16)]
    # The longest run of zeros, and of two the first.
    runs = [(end - start, -start) for start in range(8) for end in range(start + 2, 9) if set(groups[start:end]) == {"0"}]
    if not runs:
        return ":".join(groups)
    length, start = max(runs)
    return ":".join(groups[:-start]) + "::" + ":".join(groups[length - start:])


def is_host(host):
    """A host as URLs write it. Whether an `xn--` label is one that a registry could have given out is not looked at."""
    if host.startswith("[") and host.endswith("]"):
        found = address(host[1:-1])
        return bool(found) and found[0] == 6 and spelled6(found[1], False) == host[1:-1]
    labels = host.split(".")
    if re.match(r"([0-9]+|0x[0-9a-f]*)\Z", labels[-1]):
        found = address(host)
        return bool(found) and found[0] == 4
    return len(host) <= 253 and all(re.match(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z", label) for label in labels)


def origin_order(place):
    """Sort key of what stands behind `http:`, or None if that isn't its one spelling."""
    plain = place.startswith("http://")
    authority = place[7:] if plain else place
    host, port, usual = authority, None, 80 if plain else 443
    colon = authority.rfind(":")
    if colon >= 0 and "]" not in authority[colon:]:
        host, port = authority[:colon], authority[colon + 1:]
        if not re.match(r"[1-9][0-9]{0,4}\Z", port) or int(port) > 65535 or int(port) == usual:
            return None
    return (plain, host, int(port or usual)) if is_host(host) else None


def net_order(text):
    """Sort key of what stands behind `net:`, or None if that isn't its one spelling."""
    start, slash, length = text.partition("/")
    found = address(start)
    if not found:
        return None
    width = 32 if found[0] == 4 else 128
    shown = str(ipaddress.IPv4Address(found[1])) if found[0] == 4 else spelled6(found[1], True)
    if slash and (not re.match(r"(0|[1-9][0-9]{0,2})\Z", length) or int(length) >= width):
        return None
    length = int(length) if slash else width
    return found + (length,) if shown == start and found[1] % (1 << (width - length)) == 0 else None


PLAIN_GRANTS = ("storage", "log", "clock", "random", "environment")
MODES = ("preflight", "none")


def grant_order(grant):
    """Sort key of a grant, or None if it is none."""
    if grant in PLAIN_GRANTS:
        return (PLAIN_GRANTS.index(grant),)
    family, _, rest = grant.partition(":")
    if family in ("model", "tool"):
        match = PATTERN.match(rest)
        return (5 + (family == "tool"), match.group(1), match.group(2)) if match else None
    if family == "http":
        order = origin_order(rest)
        return (7,) + order if order else None
    if family == "net":
        order = net_order(rest)
        return (9,) + order if order else None
    if family == "egress" and rest in MODES:
        return (10, MODES.index(rest))
    if family == "secret":
        return (11, rest) if SLOT.match(rest) else None
    if family in ("trusted", "private"):
        order = origin_order(rest)
        return (12 + (family == "private"),) + order if order else None
    return (8, rest) if family == "agent" and AGENT.match(rest) else None


def grants(value):
    items(text)(value)
    orders = [grant_order(grant) for grant in value]
    if None in orders:
        raise Bad("V9", "`%s` is not a grant in its one spelling" % value[orders.index(None)][:200])
    if any(a >= b for a, b in zip(orders, orders[1:])):
        raise Bad("V9", "grants stand in order, each once")


SCORE, U16, U32, U64 = number(100), number(0xFFFF), number(0xFFFFFFFF), number()
HEADERS = items(record({"name": text, "value": text}))
BUDGET = record({"fuel": U64, "memory": U64, "wall_ms": U64, "effects": U32, "bytes": U64})
REPLY = record({"content_type": text, "body": binary})
SENT = record({"sender": nullable(agent), "content_type": text, "body": binary})
WORLD = choice("durable", "stateless")


def labels(value):
    items(text)(value)
    if any(a.encode() >= b.encode() for a, b in zip(value, value[1:])):
        raise Bad("V3", "labels stand in order, each once")


def MESSAGE(value):
    """What wakes an agent, and the labels of whoever sent it, unless there are none."""
    if isinstance(value, dict) and "labels" in value:
        under(".labels", labels, value["labels"])
        if not value["labels"]:
            raise Bad("V3", "no labels are left out")
        value = {key: value[key] for key in value if key != "labels"}
    SENT(value)


EFFECTS = {kind: record(dict(fields, kind=text)) for kind, fields in {
    "storage.get": {"key": text},
    "storage.set": {"key": text, "value": binary},
    "storage.delete": {"key": text},
    "storage.list": {"prefix": text, "after": nullable(text), "limit": U32},
    "log.write": {"level": choice("debug", "info", "warn", "error"), "text": text},
    "clock.now": {},
    "clock.monotonic": {},
    "clock.sleep": {"nanos": exact},
    "random.bytes": {"len": U32},
    "environment.read": {},
    "model.generate": {"model": text, "max_tokens": U32, "utterances": items(record({
        "role": choice("system", "user", "assistant"), "text": text}))},
    "tools.list": {},
    "tools.call": {"name": text, "arguments": text},
    "http.fetch": {"method": text, "url": text, "headers": HEADERS, "body": binary},
    "agents.send": {"to": text, "content_type": text, "body": binary},
    "secret.use": {"slot": text, "method": text, "url": text},
}.items()}
ANSWER = tagged({
    "entry": nullable(record({"value": binary, "version": U64})),
    "version": U64,
    "existed": flag,
    "keys": items(record({"key": text, "version": U64, "size": U64})),
    "time": exact,
    "random": binary,
    "environment": items(pair),
    "completion": record({"text": text, "input_tokens": U32, "output_tokens": U32}),
    "tools": items(record({"name": text, "description": text, "arguments": text})),
    "result": text,
    "response": record({"status": U16, "headers": HEADERS, "body": binary}),
    "sent": U32,
    "handle": text,
}, units=("nothing",))
REFUSAL = record({
    "code": choice("bad-ask", "not-granted", "egress-denied", "no-permit", "forbidden", "policy-error", "approval-denied",
                   "approval-expired", "approval-invalid", "killed", "revoked", "mailbox-closed", "no-budget",
                   "budget-exceeded", "per-action-limit", "rail-not-allowed", "unpriced", "bad-spend", "too-many-open",
                   "effects-spent", "bytes-spent", "secret-not-bound", "secret-leak", "vault-locked",
                   "response-too-large"),
    "layer": choice("form", "declared", "switch", "trust", "policy", "approval", "budget", "executor", "secrets"),
    "reason": text,
    "remedy": text,
})
OUTCOME = tagged({"done": ANSWER, "failed": text, "refused": REFUSAL})


def effect(value):
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or value["kind"] not in EFFECTS:
        raise Bad("V4", "must have a `kind` that is one of: " + ", ".join(EFFECTS))
    EFFECTS[value["kind"]](value)


TAPE = items(record({"effect": effect, "outcome": OUTCOME, "ruling": nullable(U32)}))
ENDING = tagged({
    "replied": REPLY,
    "failed": tagged({"bad-input": text, "failed": text}),
    "stopped": record({"cause": choice("fuel", "memory", "wall-clock", "killed", "revoked", "trap", "refused",
                                       "bad-value"), "detail": text}),
})
LIMITS = some({name: U64 for name in (
    "fuel", "memory", "wall_ms", "effects", "bytes_out", "output_bytes", "money")})
HOSTS = some({name: U64 for name in ("requests_per_minute", "bytes_per_day")})
CAPS = record({"at_cap": choice("pause", "refuse"), "currency": nullable(text), "per_action": nullable(U64),
               "rails": items(text), "turn": LIMITS, "run": LIMITS, "day": LIMITS, "total": LIMITS})


def caps(value):
    """What may be spent beyond one turn. Money needs a currency; rails stand in order, each once."""
    if isinstance(value, dict) and "hosts" in value:
        hosts = value["hosts"]
        if not isinstance(hosts, dict) or not 0 < len(hosts) <= MAX_HOSTS or not all(map(is_host, hosts)):
            raise Bad("V9", "`hosts` names hosts, 1 to %d of them" % MAX_HOSTS)
        for limits in hosts.values():
            HOSTS(limits)
        value = {key: value[key] for key in value if key != "hosts"}
    CAPS(value)
    currency, rails = value["currency"], value["rails"]
    if currency is not None and not re.fullmatch("[A-Z]{3}", currency):
        raise Bad("V9", "`%s` is not a currency" % currency[:200])
    if any(not re.fullmatch("[a-z][a-z0-9-]{0,63}", rail) for rail in rails) or rails != sorted(set(rails)):
        raise Bad("V9", "rails are lawful names, in order, each once")
    money = [value["per_action"]] + [value[period].get("money") for period in ("turn", "run", "day", "total")]
    if len(rails) > MAX_RAILS or (currency is None and any(amount is not None for amount in money)):
        raise Bad("V9", "too many rails, or money without a currency")


SLOTS = items(record({"slot": text, "purpose": text, "hosts": items(text), "required": flag}))
BREAKS = "\n\r\x0b\x0c\x85\u2028\u2029"


def sealed(place):
    """Whether a secret may be sent there: over TLS, or in the clear to this very machine."""
    if not place.startswith("http://"):
        return True
    host = re.sub(r":[0-9]+\Z", "", place[7:]).strip("[]")
    version, bits = address(host) or (0, 0)
    return host == "localhost" or (version, bits) == (6, 1) or (version == 4 and bits >> 24 == 127)


def slots(value):
    """The slots that an agent's author declares: lawful, in order, each once, and not an empty list."""
    SLOTS(value)
    names = [declared["slot"] for declared in value]
    if not 0 < len(names) <= MAX_SLOTS or names != sorted(set(names)) or not all(map(SLOT.match, names)):
        raise Bad("V9", "slots are lawful names, in order, each once, 1 to %d of them" % MAX_SLOTS)
    for declared in value:
        purpose, hosts = declared["purpose"], declared["hosts"]
        if not purpose.strip(" \t") or len(purpose.encode()) > MAX_PURPOSE or any(c in BREAKS for c in purpose):
            raise Bad("V9", "a purpose is one line of up to %d bytes" % MAX_PURPOSE)
        order = [origin_order(host) for host in hosts]
        if None in order or len(hosts) > MAX_SLOT_HOSTS or not all(map(sealed, hosts)) or order != sorted(set(order)):
            raise Bad("V9", "a slot's hosts are lawful, in order, each once, at most %d" % MAX_SLOT_HOSTS)


def created(more=()):
    """A creation. What it declares is left out if that is nothing."""
    plain = record(dict(CREATED, **dict(more)))

    def shape(value):
        if isinstance(value, dict) and "slots" in value:
            under(".slots", slots, value["slots"])
            value = {key: value[key] for key in value if key != "slots"}
        plain(value)
    return shape


CREATED = {"agent": agent, "component": digest, "world": WORLD, "engine": digest, "grants": grants, "budget": BUDGET,
           "caps": caps, "image": nullable(digest)}
CLOSED = record({"agent": agent, "turn": U64, "number": U32, "outcome": OUTCOME})
BODY = tagged({
    "genesis": record({"format": text, "key": text}),
    "component-admitted": record({"component": digest, "size": U64, "world": WORLD, "engine": digest}),
    "agent-created": created(),
    "agent-forked": created({"from": agent, "turn": U64, "entry": digest}),
    "agent-rolled-back": record({"agent": agent, "by": text, "to": U64, "entry": digest, "image": digest, "taken": U64,
                                 "previous": digest}),
    "agent-quarantined": record({"agent": agent, "by": text, "reason": text}),
    "agent-woken": record({"agent": agent, "by": text}),
    "agent-removed": record({"agent": agent}),
    "rulebook-in-force": record({"rulebook": digest, "files": items(text)}),
    "switch-changed": record({"switch": choice("spend", "all"), "change": choice("thrown", "lifted"), "by": text,
                              "at": U64, "reason": text}),
    "trust-changed": record({"agent": agent, "change": choice("set", "revoked", "restored", "mismatch"), "score": SCORE,
                             "by": text, "at": U64, "reason": text, "turn": nullable(U64)}),
    "caps-set": record({"agent": agent, "caps": caps}),
    "vault-changed": record({"what": choice("init", "set", "rotate", "remove", "bind", "unbind", "rotate-master", "found"),
                             "vault": text, "name": nullable(text), "holder": nullable(text), "slot": nullable(text),
                             "hosts": items(text), "version": nullable(U64), "generation": U64, "digest": digest,
                             "by": text}),
    "schedule-added": record({"agent": agent, "by": text, "message": MESSAGE, "missed": choice("skip", "once", "all"),
                              "schedule": text, "when": tagged({
                                  "cron": record({"expression": text, "zone": text}),
                                  "every": record({"from": U64, "interval": U64})})}),
    "schedule-removed": record({"agent": agent, "by": text, "reason": text, "schedule": text}),
    "schedule-fired": record({"agent": agent, "due": U64, "missed": U64, "schedule": text}),
    "effect-opened": record({"agent": agent, "turn": U64, "message": U64, "input": nullable(MESSAGE), "number": U32,
                             "tape": TAPE, "judged": digest, "effect": effect, "ruling": nullable(U32)}),
    "effect-closed": CLOSED,
    "in-doubt": record({"agent": agent, "turn": U64, "number": U32}),
    "settled": CLOSED,
    "turn": record({"agent": agent, "turn": U64, "previous": digest, "component": digest, "engine": digest,
                    "grants": grants, "budget": BUDGET, "image_before": nullable(digest), "input": MESSAGE,
                    "tape": TAPE, "judged": digest, "ending": ENDING, "fuel": U64, "image_after": nullable(digest)}),
})
ENTRY = record({"body": BODY, "prev": digest, "seq": U64, "time": U64})
IMAGE = record({"agent": agent, "component": digest, "engine": digest, "turn": U64,
                "memories": items(record({"size": U32, "nodes": items(nullable(digest))})),
                "globals": items(items(exact))})
HEADER_LINE = record({"bundle": text, "key": text})
CHECKPOINT_LINE = record({"checkpoint": text, "consistency": items(binary)})
ENTRY_LINE = record({"entry": ENTRY, "inclusion": items(binary)})
BLOB_LINE = record({"blob": binary})
END_LINE = record({"end": digest})
