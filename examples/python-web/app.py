"""Lists the tasks of a tracker and adds one, by ordinary requests and with keys that it never sees: where a key belongs
stands its handle, and the host puts it in. The message is where the tracker is.
"""

import lazaret_requests as requests
from wit_world import WitWorld as World
from wit_world.imports import types

KEY = {"Authorization": "Bearer lazaret-secret:tracker"}


class WitWorld(World):
    def handle(self, input):
        base = input.body.decode().strip()
        try:
            found = requests.get(f"{base}/v1/tasks", params={"state": "open"}, headers=KEY)
            found.raise_for_status()
            added = requests.post(f"{base}/v1/tasks", json={"title": "water the plants"}, headers=KEY)
            # The password of this one goes the way that basic authentication always goes.
            me = requests.get(f"{base}/v1/me", auth=("ada", "lazaret-secret:login"))
            answer = f"{len(found.json()['tasks'])} open; added: {added.status_code}; {added.text} {me.text}"
        except requests.RequestException as error:
            answer = f"{type(error).__name__}: {error}"
        return types.Reply("text/plain; charset=utf-8", answer.encode())
