// An agent that counts what it hears.

import log from "lazaret:host/log@0.1.0";
import storage from "lazaret:host/storage@0.1.0";

// Ordinary variables: the host keeps them between turns, also while the agent sleeps on disk.
const heard = [];

export function handle(input) {
    // What is thrown must be the world's `failure`: a mere Error would end the turn as a crash.
    const text = decode(input.body);
    if (text === undefined) throw { tag: "bad-input", val: "the message is not UTF-8" };
    try {
        return { contentType: "text/plain; charset=utf-8", body: encode(hear(text)) };
    } catch (error) {
        throw { tag: "failed", val: error.payload ? explain(error.payload) : String(error) };
    }
}

// All that reaches outside is an ask, and any ask can be refused: it then throws an Error with the fault as its payload.
function hear(text) {
    heard.push(text);
    log.write("info", `heard ${JSON.stringify(text)}`);
    storage.set("heard", encode(`${heard.length}`));
    return `I have heard ${heard.length} so far: ${heard.join(", ")}`;
}

function explain(fault) {
    return fault.tag === "refused" ? `${fault.val.code}: ${fault.val.reason} ${fault.val.remedy}` : fault.val;
}

// There is no TextDecoder here; the URI functions know UTF-8 too.
function decode(bytes) {
    try {
        return decodeURIComponent(Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, "0")}`).join(""));
    } catch {
        return undefined;
    }
}

function encode(text) {
    const units = encodeURIComponent(text).match(/%..|./g) ?? [];
    return Uint8Array.from(units, (unit) => (unit.length === 3 ? parseInt(unit.slice(1), 16) : unit.charCodeAt(0)));
}
