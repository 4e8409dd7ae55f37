// The counter agent, in JavaScript. The same commands as its siblings in Rust, C and Python, so that one table of tests
// drives all four. What it remembers lives in ordinary variables: the host keeps them between turns.
//
// A u64 arrives as a Number, exact up to 2^53: the clock's nanoseconds are rounded to multiples of 256.

import agents from "lazaret:host/agents@0.1.0";
import clock from "lazaret:host/clock@0.1.0";
import http from "lazaret:host/http@0.1.0";
import log from "lazaret:host/log@0.1.0";
import model from "lazaret:host/model@0.1.0";
import random from "lazaret:host/random@0.1.0";
import secrets from "lazaret:host/secrets@0.1.0";
import storage from "lazaret:host/storage@0.1.0";
import tools from "lazaret:host/tools@0.1.0";

const numbers = [];
let total = 0n;
const rolls = [];

const commands = {
    add(rest) {
        const number = whole(rest);
        numbers.push(number);
        total = BigInt.asIntN(64, total + number);
        storage.set("total", encode(`${total}`));
        return `total=${total} count=${numbers.length}`;
    },
    recall: () => numbers.join(","),
    stored() {
        const entry = storage.get("total");
        return entry ? `stored=${decode(entry.value)}@${entry.version}` : "stored=none";
    },
    roll() {
        const bytes = hex(random.bytes(8));
        const now = BigInt(clock.now()).toString(16).padStart(16, "0");
        rolls.push(`random=${bytes} now=${now}`);
        return rolls.at(-1);
    },
    rolls: () => rolls.join(","),
    fetch: (url) => request("GET", url, ""),
    post: (rest) => request("POST", ...split(rest)),
    handle: (slot) => secrets.handle(slot),
    call(rest) {
        const [method, after] = split(rest);
        const [url, header] = split(after);
        const [name, value] = split(header);
        const headers = name === "-" ? [] : [{ name, value }];
        const response = http.fetch({ method, url, headers, body: encode("") });
        return `status=${response.status} ${decode(response.body)}`;
    },
    tool: (rest) => tools.call(...split(rest)),
    ask(text) {
        const utterances = [{ role: "user", text }];
        return model.generate({ model: "rehearsal/echo", utterances, maxTokens: 256 }).text;
    },
    tell(rest) {
        const [to, text] = split(rest);
        return `sent=${agents.send(to, "text/plain", encode(text))}`;
    },
    say(text) {
        log.write("info", text);
        return "said";
    },
    spin() {
        for (;;);
    },
    fail(text) {
        throw { tag: "failed", val: text };
    },
    crash() {
        throw new Error("told to crash");
    },
};

export function handle(input) {
    const [command, rest] = split(text(input.body));
    if (!Object.hasOwn(commands, command)) throw bad(`unknown command: ${command}`);
    let answer;
    try {
        answer = commands[command](rest);
    } catch (error) {
        // A fault of an import comes as an Error with the fault as its payload. Anything else isn't ours to explain.
        if (!error.payload) throw error;
        answer = describe(error.payload);
    }
    return { contentType: "text/plain; charset=utf-8", body: encode(answer) };
}

function request(method, url, body) {
    const response = http.fetch({ method, url, headers: [], body: encode(body) });
    return `status=${response.status} bytes=${response.body.length}`;
}

function describe(fault) {
    if (fault.tag === "refused") return `refused: ${fault.val.code} ${fault.val.reason}`;
    return `failed: ${fault.val}`;
}

// The first word, and what follows the space after it.
function split(text) {
    const space = text.indexOf(" ");
    return space < 0 ? [text, ""] : [text.slice(0, space), text.slice(space + 1)];
}

function bad(text) {
    return { tag: "bad-input", val: text };
}

function whole(text) {
    const sign = text.startsWith("-") ? -1n : 1n;
    const digits = text.replace(/^[+-]/, "");
    const number = /^[0-9]+$/.test(digits) ? sign * BigInt(digits) : undefined;
    if (number === undefined || BigInt.asIntN(64, number) !== number) throw bad(`not a whole number: ${text}`);
    return number;
}

function hex(bytes) {
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// There is no TextDecoder here; the URI functions know UTF-8 just as strictly.
function decode(bytes) {
    return decodeURIComponent(Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, "0")}`).join(""));
}

function encode(text) {
    const escaped = encodeURIComponent(text);
    return Uint8Array.from(escaped.match(/%..|./g) ?? [], (unit) =>
        unit.length === 3 ? parseInt(unit.slice(1), 16) : unit.charCodeAt(0),
    );
}

function text(bytes) {
    try {
        return decode(bytes);
    } catch {
        throw bad("the body is not UTF-8");
    }
}
