// `fetch` as the web has it, over lazaret:host/http. A turn is one call, so the answer is there when it returns: `await` is
// allowed and does nothing. What the gate refuses is a TypeError, as a blocked request is in a browser, with the refusal
// as its `cause`.

import http from "lazaret:host/http@0.1.0";

class Headers {
    #values = new Map();

    constructor(init = {}) {
        const pairs = Array.isArray(init) || init instanceof Headers ? init : Object.entries(init);
        for (const [name, value] of pairs) this.append(name, value);
    }

    append(name, value) {
        const before = this.get(name);
        this.#values.set(name.toLowerCase(), before === null ? String(value) : `${before}, ${value}`);
    }

    set(name, value) {
        this.#values.set(name.toLowerCase(), String(value));
    }

    get(name) {
        return this.#values.get(name.toLowerCase()) ?? null;
    }

    has(name) {
        return this.#values.has(name.toLowerCase());
    }

    [Symbol.iterator]() {
        return this.#values.entries();
    }
}

class Response {
    #bytes;

    constructor(url, { status, headers, body }) {
        this.url = url;
        this.status = status;
        this.ok = status >= 200 && status < 300;
        this.headers = new Headers(headers.map(({ name, value }) => [name, value]));
        this.#bytes = body;
    }

    bytes() {
        return this.#bytes;
    }

    text() {
        return fromUtf8(this.#bytes);
    }

    json() {
        return JSON.parse(this.text());
    }
}

function fetch(url, { method = "GET", headers = {}, body = "" } = {}) {
    const fields = [...new Headers(headers)].map(([name, value]) => ({ name, value }));
    const bytes = typeof body === "string" ? toUtf8(body) : body;
    try {
        const answer = http.fetch({ method: method.toUpperCase(), url: `${url}`, headers: fields, body: bytes });
        return new Response(`${url}`, answer);
    } catch (error) {
        if (!error.payload) throw error;
        const { tag, val } = error.payload;
        const why = tag === "refused" ? `${val.code}: ${val.reason}` : val;
        throw new TypeError(`fetch failed: ${why}`, { cause: error.payload });
    }
}

// There is no TextDecoder here; the URI functions know UTF-8 just as strictly.
function fromUtf8(bytes) {
    return decodeURIComponent(Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, "0")}`).join(""));
}

function toUtf8(text) {
    return Uint8Array.from(encodeURIComponent(text).match(/%..|./g) ?? [], (unit) =>
        unit.length === 3 ? parseInt(unit.slice(1), 16) : unit.charCodeAt(0),
    );
}
