// Lists the tasks of a tracker and adds one, with plain `fetch` and a key that it never sees: where the key belongs stands
// its handle, and the host puts it in. The message is where the tracker is.

export function handle(input) {
    const base = fromUtf8(input.body).trim();
    const headers = { Authorization: "Bearer lazaret-secret:tracker", Accept: "application/json" };
    try {
        const open = fetch(`${base}/v1/tasks?state=open`, { headers }).json();
        const added = fetch(`${base}/v1/tasks`, {
            method: "POST",
            headers: { ...headers, "Content-Type": "application/json" },
            body: JSON.stringify({ title: "water the plants" }),
        });
        return reply(`${open.tasks.length} open; added: ${added.status}; ${added.text()}`);
    } catch (error) {
        return reply(`${error}`);
    }
}

function reply(text) {
    return { contentType: "text/plain; charset=utf-8", body: toUtf8(text) };
}
